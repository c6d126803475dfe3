"""Whether a trace can say anything about memory: tensors in arguments show only some of it."""

from __future__ import annotations

from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError


def memory_was_recorded(trace: TraceData) -> bool:
    """Whether allocations and frees were listened to, even if there was none."""
    options = trace.metadata.get("options")
    wanted = isinstance(options, dict) and options.get("memory") is True
    return wanted or len(trace.table("allocations")) > 0


def check_memory_recorded(trace: TraceData) -> None:
    """Raise UsageError unless it was."""
    if not memory_was_recorded(trace):
        raise UsageError(
            "This trace does not say how much memory was in use, because that was not recorded. "
            "Record with profile_memory=True (opscope run --memory)."
        )
