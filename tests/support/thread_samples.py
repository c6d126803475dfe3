"""What the kernel counted of threads, for traces of pictures."""

from __future__ import annotations

from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import ORIGIN_NS


def sampled(trace, *rows):
    """With samples: (system's thread id, ms, computed ms, delayed ms, faults, waits for)."""
    thread, time, computed, delayed, faults, waits_for = zip(*rows, strict=True)
    columns = {
        "system_thread_id": thread,
        "time_ns": [ORIGIN_NS + int(ms * 1e6) for ms in time],
        "computed_ns": [int(ms * 1e6) for ms in computed],
        "delayed_ns": [int(ms * 1e6) for ms in delayed],
        "system_ns": [0] * len(rows),
        "faults": faults,
        "waits_for": [int(kind) for kind in waits_for],
    }
    columns = {name: list(values) for name, values in columns.items()}
    return trace.with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})
