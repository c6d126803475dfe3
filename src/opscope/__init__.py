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
from opscope.analysis.findings.find import find_findings as _find_findings
from opscope.analysis.memory.peak import memory_at_peak as _memory_at_peak
from opscope.annotate import record_function
from opscope.errors import (
    BridgeError,
    LifecycleError,
    MissingDependencyError,
    OpscopeError,
    TraceFormatError,
    UsageError,
)
from opscope.export.formats import export_trace as _export_trace
from opscope.export.tensorboard import tensorboard_trace_handler
from opscope.observer import ExecutionTraceObserver
from opscope.profiler import profile
from opscope.schedule import ProfilerAction, schedule
from opscope.trace.load import load
from opscope.trace.trace import Trace
from opscope.tree.node import build_tree as _build_tree

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

Trace.tree = _build_tree  # type: ignore[method-assign, assignment]
Trace.peak_memory = _memory_at_peak  # type: ignore[method-assign, assignment]
Trace.findings = _find_findings  # type: ignore[method-assign, assignment]
Trace.export = _export_trace  # type: ignore[method-assign, assignment]


def __getattr__(name: str) -> Any:
    # torch's own enum, so that its members and ours are the same; looked up late, because reading
    # traces needs no torch.
    if name == "ProfilerActivity":
        from torch.profiler import ProfilerActivity

        return ProfilerActivity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
