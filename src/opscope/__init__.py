"""opscope: an independent, low-overhead profiler for PyTorch, with torch.profiler's API."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    importlib.import_module("opscope._native")
except ImportError as error:
    from opscope.errors import MissingDependencyError as _MissingDependencyError

    raise _MissingDependencyError(
        f"opscope's compiled part cannot be loaded ({error}). It is made when opscope is "
        "installed, for one version of Python, and cannot be inside a zip file: install opscope "
        "with the pip of this Python."
    ) from error

from opscope.activities import supported_activities
from opscope.annotate import record_function
from opscope.errors import (
    BridgeError,
    LifecycleError,
    MissingDependencyError,
    OpscopeError,
    TraceFormatError,
    UsageError,
)
from opscope.export.tensorboard import tensorboard_trace_handler
from opscope.observer import ExecutionTraceObserver
from opscope.profiler import profile
from opscope.schedule import ProfilerAction, schedule
from opscope.trace.load import load
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

__version__ = "0.1.0"

__all__ = [
    "BridgeError",
    "ExecutionTraceObserver",
    "LifecycleError",
    "MissingDependencyError",
    "OpscopeError",
    "ProfilerAction",
    "ProfilerActivity",
    "Trace",
    "TraceFormatError",
    "UsageError",
    "load",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

# What methods of Trace import is loaded now: when one is called, the program may have changed its
# sys.path, and a child that is forked in the middle of an import waits for ever.
for _stage in ("tree.node", "analysis.memory.peak", "analysis.findings.find", "export.formats"):
    importlib.import_module(f"opscope.{_stage}")


def __getattr__(name: str) -> Any:
    # torch's own enum, so that its members and ours are the same; looked up late, because reading
    # traces needs no torch.
    if name == "ProfilerActivity":
        from torch.profiler import ProfilerActivity

        return ProfilerActivity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
