"""What the kernel counted of threads, for traces of pictures."""

from __future__ import annotations

from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import ORIGIN_NS


def sampled(trace, *rows):
    """With samples: (system's thread id, ms, computed ms, delayed ms, faults, waits for)."""
    columns = {
        "system_thread_id": [row[0] for row in rows],
        "time_ns": [ORIGIN_NS + int(row[1] * 1e6) for row in rows],
        "computed_ns": [int(row[2] * 1e6) for row in rows],
        "delayed_ns": [int(row[3] * 1e6) for row in rows],
        "system_ns": [0] * len(rows),
        "faults": [row[4] for row in rows],
        "waits_for": [int(row[5]) for row in rows],
    }
    return trace.with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})
