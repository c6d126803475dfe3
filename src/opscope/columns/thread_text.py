"""What a thread of a recording is called in sentences."""

from __future__ import annotations

import numpy as np

from opscope.columns.trace_data import TraceData


def thread_name(trace: TraceData, number: int) -> str:
    """The name that the thread with a number in the system gave itself; empty for none."""
    threads = trace.table("threads")
    rows = np.flatnonzero(threads["system_thread_id"] == number)
    name = int(threads["name"][rows[0]]) if len(rows) else -1
    return trace.names[name] if name >= 0 else ""


def thread_text(trace: TraceData, number: int) -> str:
    """``thread 1234 (loader)``: a thread's number in the system, and its name if it has one."""
    name = thread_name(trace, number)
    return f"thread {number} ({name})" if name else f"thread {number}"
