"""opscope: an independent, low-overhead profiler for PyTorch, with torch.profiler's API.

``PYTEST_DONT_REWRITE``: pytest would rewrite the modules of the plugin's distribution.
"""

import _warnings
import sys

_imported_before = list(sys.modules)
_filters_before = tuple(_warnings.filters)
"""See ``launch/hidden_modules.py``."""

# `python -m opscope`, before other imports: the current folder, which any user may write to, is
# first in sys.path, unlike with the script `opscope`. Programs that opscope runs get it back.
_is_run = sys.argv[:1] == ["-m"] and "opscope" in sys.orig_argv[-len(sys.argv)]
if _is_run and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    sys.path[0] = sys.exec_prefix + "/bin"

import importlib
import os
import threading
from typing import TYPE_CHECKING, Any

try:
    importlib.import_module("opscope._native")
except ImportError as error:
    from opscope.errors import MissingDependencyError as _MissingDependencyError

    raise _MissingDependencyError(
        f"opscope's native core cannot be loaded ({error}). It is compiled at installation for "
        "one version of Python, and does not work inside a zip file: install opscope with the "
        "pip of this Python."
    ) from error

from opscope.errors import (
    BridgeError,
    LifecycleError,
    MissingDependencyError,
    OpscopeError,
    ReachError,
    TraceFormatError,
    UnreadableProcessError,
    UsageError,
)
from opscope.errors import not_installed as _not_installed
from opscope.launch.torch_import import when_imported as _when_imported

# Imported at once: a later import of the module of this name would replace the function.
from opscope.torch_api.schedule import ProfilerAction, schedule

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

    from opscope.api.diff import diff
    from opscope.api.job import Job
    from opscope.api.load import load, load_job, load_trace
    from opscope.api.trace import Trace
    from opscope.export.chrome.writer import tensorboard_trace_handler
    from opscope.live.control.server import listen
    from opscope.live.flight.recorder import flight_recorder
    from opscope.torch_api.activities import supported_activities
    from opscope.torch_api.annotate import record_function
    from opscope.torch_api.observer import ExecutionTraceObserver
    from opscope.torch_api.profiler import profile

__version__ = "0.1.0"

__all__ = [
    "BridgeError",
    "ExecutionTraceObserver",
    "Job",
    "LifecycleError",
    "MissingDependencyError",
    "OpscopeError",
    "ProfilerAction",
    "ProfilerActivity",
    "ReachError",
    "Trace",
    "TraceFormatError",
    "UnreadableProcessError",
    "UsageError",
    "diff",
    "flight_recorder",
    "listen",
    "load",
    "load_job",
    "load_trace",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_PLACES = {
    "ExecutionTraceObserver": "opscope.torch_api.observer",
    "Job": "opscope.api.job",
    # torch's own enum, so that members are identical; reading traces needs no torch.
    "ProfilerActivity": "torch.profiler",
    "Trace": "opscope.api.trace",
    "diff": "opscope.api.diff",
    "flight_recorder": "opscope.live.flight.recorder",
    "listen": "opscope.live.control.server",
    "load": "opscope.api.load",
    "load_ipython_extension": "opscope.readers.notebook",  # called by %load_ext
    "load_job": "opscope.api.load",
    "load_trace": "opscope.api.load",
    "profile": "opscope.torch_api.profiler",
    "record_function": "opscope.torch_api.annotate",
    "supported_activities": "opscope.torch_api.activities",
    "tensorboard_trace_handler": "opscope.export.chrome.writer",
}
"""Modules of the other public names, imported at first use: a program that only imports opscope,
and a command line that only prints help, should not wait for them."""

_MODULES = ("drop_in", "triggers")
"""Submodules available as ``opscope.NAME`` after ``import opscope``."""

# Held during a fork. A child inherits the state of Python's import locks: the lock of a module that
# another thread is importing would never be released in the child.
_importing = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire,
        after_in_parent=_importing.release,
        after_in_child=_importing.release,
    )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with _importing:
            return importlib.import_module(f"opscope.{name}")
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _importing:
        try:
            value = getattr(importlib.import_module(place), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise _not_installed("torch", f"opscope.{name}") from error
    globals()[name] = value
    return value


def _watch_compilations() -> None:
    """Record compilations from the start: most programs compile before they record."""
    from opscope.recording.compiled.graphs import listen_to_compiling

    listen_to_compiling()


_when_imported("torch._dynamo.utils", _watch_compilations)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])


if os.environ.get("OPSCOPE_CONTROL") == "1":
    # Not `listen`: the program must also run if it cannot listen.
    from opscope.live.control.server import listen_if_possible as _listen_if_possible

    _listen_if_possible()
