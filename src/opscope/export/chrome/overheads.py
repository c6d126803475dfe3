"""Rows of a Chrome trace for what collecting device activity cost, as Kineto has them."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.export.window import Window
from opscope.trace.trace import Trace

OVERHEAD_NAMES = {
    0: "Unknown",
    1: "Driver Compiler",
    1 << 16: "Buffer Flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime Triggered Module Loading",
    5 << 16: "Lazy Function Loading",
    6 << 16: "Command Buffer Full",
    7 << 16: "Activity Buffer Request",
    8 << 16: "UVM Activity Init",
}
"""Names that tools look for, by CUpti_ActivityOverheadKind."""

_PROCESS = -1


def overhead_rows(trace: Trace, window: Window) -> Iterator[str]:
    """Each ends in a comma and a newline; none where no overhead is on record."""
    table, threads = trace.table("gpu_overheads"), trace.table("threads")["system_thread_id"]
    if not len(table):
        return
    time = window.microseconds(window.start_ns)
    for key, value in (("name", '"CUPTI Overhead"'), ("sort_index", "8388608")):
        name = "process_name" if key == "name" else "process_sort_index"
        yield (
            f'{{"ph":"M","name":"{name}","ts":{time},"pid":{_PROCESS},"tid":0,'
            f'"args":{{"{key}":{value}}}}},\n'
        )
    columns = (table[name].tolist() for name in ("kind", "start_ns", "duration_ns", "thread"))
    for kind, start_ns, duration_ns, thread in zip(*columns, strict=True):
        whole, rest = divmod(duration_ns, 1000)
        thread_id = int(threads[thread]) if 0 <= thread < len(threads) else 0
        yield (
            f'{{"ph":"X","cat":"overhead","name":"{OVERHEAD_NAMES.get(kind, "Unrecognized")}",'
            f'"pid":{_PROCESS},"tid":{thread_id},"ts":{window.microseconds(start_ns)},'
            f'"dur":{whole}.{rest:03d},"args":{{}}}},\n'
        )
