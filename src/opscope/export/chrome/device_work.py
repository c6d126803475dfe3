"""Columns of device activity for the native Chrome writer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.columns.codes import OVERHEAD_NAMES, GpuKind
from opscope.columns.trace_data import TraceData
from opscope.export.native_columns import Columns, flat, list_columns, within
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.window import Window

_COLLECTIVE = "record_param_comms"
"""The span with which torch's communication backends describe a collective."""

_OVERHEAD_PROCESS = -1

_GPU = (
    "kind", "name", "start_ns", "duration_ns", "device_index", "context", "stream",
    "correlation_id", "launch", "size_bytes", "registers_per_thread", "shared_memory_bytes",
    "queued_ns", "graph", "graph_node", "peer_device", "target_device",
    "wait_on_cuda_event_record_corr_id", "wait_on_stream",
)  # fmt: skip


def gpu_columns(trace: TraceData) -> Columns:
    """``gpu.*`` except ``track``."""
    table = trace.table("gpu")
    return {
        **flat("gpu", table, (*_GPU, *["category"] * table.has("category"))),
        **list_columns("gpu.grid", table.lists("grid")),
        **list_columns("gpu.block", table.lists("block")),
        **_occupancy(trace),
        **_collectives(trace),
    }


def _collectives(trace: TraceData) -> Columns:
    """The event that describes a kernel's collective; tools read size and process group from it."""
    events, gpu = trace.events, trace.table("gpu")
    name = trace.names.find(_COLLECTIVE)
    if name < 0 or not len(gpu):
        return {}
    around = nearest_ancestor(event_tree(trace).parent, events["name"] == name)
    is_launched = within(gpu["launch"], len(events)) & (gpu["kind"] == GpuKind.KERNEL)
    collective = np.full(len(gpu), -1, dtype=np.int32)
    collective[is_launched] = around[gpu["launch"][is_launched]]
    return {"gpu.collective": collective}


def _occupancy(trace: TraceData) -> Columns:
    occupancy = kernel_occupancy(trace)
    if occupancy is None:
        return {}
    thousandths = 1000.0
    return {
        "gpu.blocks_per_sm": np.rint(occupancy.blocks_per_sm * thousandths).astype(np.int64),
        "gpu.warps_per_sm": np.rint(occupancy.warps_per_sm * thousandths).astype(np.int64),
        "gpu.occupancy_percent": np.rint(occupancy.occupancy * 100).astype(np.int64),
    }


def call_columns(trace: TraceData) -> Columns:
    """``events.correlation_id`` and ``events.function``; empty if calls were not recorded."""
    calls, count = trace.table("runtime_calls"), len(trace.events)
    rows = np.flatnonzero(within(calls["event"], count))
    if not len(rows):
        return {}
    event = calls["event"][rows]
    correlation, function = np.full(count, -1, np.int64), np.zeros(count, np.int32)
    correlation[event], function[event] = calls["correlation_id"][rows], calls["function"][rows]
    return {"events.correlation_id": correlation, "events.function": function}


def overhead_rows(trace: TraceData, window: Window) -> Iterator[str]:
    """Rows for the overhead of collecting device activity, as in Kineto's files; empty if unknown.

    Each row ends in a comma and a newline.
    """
    table, threads = trace.table("gpu_overheads"), trace.table("threads")["system_thread_id"]
    if not len(table):
        return
    time = window.microseconds(window.start_ns)
    for key, value in (("name", '"CUPTI Overhead"'), ("sort_index", "8388608")):
        name = "process_name" if key == "name" else "process_sort_index"
        yield (
            f'{{"ph":"M","name":"{name}","ts":{time},"pid":{_OVERHEAD_PROCESS},"tid":0,'
            f'"args":{{"{key}":{value}}}}},\n'
        )
    columns = (table[name].tolist() for name in ("kind", "start_ns", "duration_ns", "thread"))
    for kind, start_ns, duration_ns, thread in zip(*columns, strict=True):
        microseconds, nanoseconds = divmod(duration_ns, 1000)
        thread_id = int(threads[thread]) if 0 <= thread < len(threads) else 0
        yield (
            f'{{"ph":"X","cat":"overhead","name":"{OVERHEAD_NAMES.get(kind, "Unrecognized")}",'
            f'"pid":{_OVERHEAD_PROCESS},"tid":{thread_id},"ts":{window.microseconds(start_ns)},'
            f'"dur":{microseconds}.{nanoseconds:03d},"args":{{}}}},\n'
        )
