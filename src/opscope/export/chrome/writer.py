"""A trace as Chrome JSON with the fields of torch.profiler's files.

Native code writes the rows in blocks without the GIL; memory is a few blocks at any trace length.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import opscope._native as _native
from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.base.address import refuse_address
from opscope.base.reused_memory import reusing_memory
from opscope.columns.codes import OVERHEAD_NAMES, GpuKind
from opscope.columns.dtypes import CPP_NAMES
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.export.chrome import columns
from opscope.export.chrome.columns import Track, place_on_tracks
from opscope.export.format import Format
from opscope.export.native_columns import (
    Columns,
    argument_columns,
    blocks_of,
    flat,
    list_columns,
    name_columns,
    within,
)
from opscope.export.output_file import Block, to_json, write_file
from opscope.storage.chrome.vocabulary import BESIDE, KEY, recorded_counts
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.window import Window, process_id_of, process_name_of, window_of

_OWN_KEYS = frozenset({
    "schemaVersion", "deviceProperties", "trace_id", "host_name", "displayTimeUnit",
    "baseTimeNanoseconds", "traceEvents", "traceName",
})  # fmt: skip
_FLAGS = ("with_stack", "profile_memory", "record_shapes", "with_modules", "with_flops")
_SPANS_SORT_INDEX = 0x20000000  # below every process
_GPU_SORT_INDEX = 5_000_000  # below every host process
_AFTER_LAST_NS = 1000
"""Readers add ts and dur as floats; the end of the file must not be before that sum."""


def header(metadata: Mapping[str, Any], window: Window, tracks: Iterable[Track]) -> str:
    """The text from the first brace to the rows that name processes and threads.

    All keys of ``metadata`` are optional. A trace read from Chrome JSON has the top-level keys of
    that file.
    """
    devices = metadata.get("deviceProperties", [])
    top: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": devices}
    if metadata.get("trace_id"):
        top["trace_id"] = metadata["trace_id"]
    top |= {flag: 1 for flag in _FLAGS if metadata.get(flag)}
    for key, value in _added(metadata).items():
        if key in _FLAGS and top.get(key) == value:
            continue  # torch.profiler adds its options to what the user added
        top[f"user {key}" if key in _OWN_KEYS or key in top else key] = value
    if metadata.get("host_name"):
        top["host_name"] = metadata["host_name"]
    top |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": window.base_ns}
    pairs = "".join(f"{to_json(str(key))}: {to_json(value)},\n" for key, value in top.items())
    rows = "".join(f"{row},\n" for row in _name_rows(metadata, window, list(tracks)))
    return f'{{\n{pairs}"traceEvents": [\n{rows}'


def _added(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata that the program added."""
    if "imported_from" not in metadata:
        job = {key: metadata[key] for key in ("distributedInfo",) if metadata.get(key)}
        user = metadata.get("user")
        return {**job, **user} if isinstance(user, dict) else job
    ours = _OWN_KEYS | {"imported_from", "process_names", "otherData", *_FLAGS}
    return {key: value for key, value in metadata.items() if key not in ours}


def footer(window: Window) -> str:
    """The last four rows, at the positions that readers expect, and the end of the list."""
    start = window.microseconds(window.start_ns)
    end = window.microseconds(window.end_ns + _AFTER_LAST_NS)
    microseconds, nanoseconds = divmod(window.end_ns - window.start_ns, 1000)
    return (
        '{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans",'
        f'"tid":"PyTorch Profiler","ts":{start},"dur":{microseconds}.{nanoseconds:03d},'
        '"args":{"Op count":0}},\n'
        f'{{"ph":"M","name":"process_sort_index","ts":{start},"pid":"Spans","tid":0,'
        f'"args":{{"sort_index":{_SPANS_SORT_INDEX}}}}},\n'
        '{"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces",'
        f'"tid":"Trace PyTorch Profiler","ts":{start}}},\n'
        '{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"",'
        f'"ts":{end}}}\n'
        "],"
    )


def end_of_file(trace_name: str, of_ours: Mapping[str, Any]) -> str:
    """The text after the rows, with ``of_ours`` if it is not empty."""
    ours = f"{to_json(KEY)}: {to_json(of_ours)},\n" if of_ours else ""
    return f'{ours}"traceName": {to_json(trace_name)}\n}}\n'


def _name_rows(metadata: Mapping[str, Any], window: Window, tracks: list[Track]) -> Iterator[str]:
    time = window.microseconds(window.start_ns)

    def row(name: str, pid: int, tid: int, key: str, value: str | int, more: str = "") -> str:
        return (
            f'{{"ph":"M","name":"{name}","ts":{time},"pid":{pid},"tid":{tid},'
            f'"args":{{"{key}":{to_json(value)}{more}}}}}'
        )

    for pid, device in dict.fromkeys((track.pid, track.device) for track in tracks):
        on_host = device < 0
        yield row(
            "process_name", pid, 0, "name", process_name_of(metadata, pid if on_host else None)
        )
        yield row("process_labels", pid, 0, "labels", "CPU" if on_host else f"GPU {device}")
        sort_index = pid if on_host else _GPU_SORT_INDEX + device
        yield row("process_sort_index", pid, 0, "sort_index", sort_index)
    for track in tracks:
        beside = f',"{BESIDE}":{track.beside}' if track.beside >= 0 else ""
        yield row("thread_name", track.pid, track.tid, "name", track.name, beside)
        yield row("thread_sort_index", track.pid, track.tid, "sort_index", track.sort_index)


BLOCK_BYTES = 4 << 20
"""Large enough that threads seldom meet, small enough to stay in cache while it is compressed."""


@reusing_memory
def write_chrome_trace(
    trace: TraceData, path: str | os.PathLike[str], *, with_python: bool = True
) -> None:
    """Write ``trace`` to ``path``, compressed if ``path`` ends in ``.gz``.

    Times are microseconds after ``baseTimeNanoseconds``, with three decimals: exact to the
    nanosecond. Spans that overlap without nesting are on tracks named "(overlap N)", because
    viewers drop them otherwise. The end of the file counts rows of tables that have no place in
    such a file (``storage/chrome/vocabulary.py``).
    """
    write_file(path, chrome_blocks(trace, os.fspath(path), with_python=with_python))


def chrome_blocks(trace: TraceData, name: str, *, with_python: bool = True) -> Iterator[Block]:
    """The file in blocks of a few megabytes; ``name`` is the ``traceName`` in it."""
    metadata = trace.metadata
    window = window_of(trace, metadata)
    order = columns.event_order(trace, with_python)
    process_id = process_id_of(trace, metadata)
    places = place_on_tracks(trace, order, process_id, process_name_of(metadata))
    extras, fragments = columns.extra_columns(trace, places)
    writer = _native.ChromeWriter(
        {
            "events.order": order,
            "events.track": places.events,
            "allocations.track": places.allocations,
            "gpu.track": places.gpu,
            **name_columns(trace),
            **columns.event_columns(trace),
            **argument_columns(trace),
            **columns.flow_columns(trace),
            **columns.allocation_columns(trace),
            **gpu_columns(trace),
            **call_columns(trace),
            **extras,
        },
        tracks=[track.json for track in places.tracks],
        fragments=fragments,
        dtype_names=[CPP_NAMES.get(code, "") for code in range(max(CPP_NAMES) + 1)],
        header=header(metadata, window, places.tracks) + "".join(overhead_rows(trace, window)),
        footer=footer(window),
        base_ns=window.base_ns,
    )
    rows = len(order) + len(trace.table("allocations")) + len(trace.table("gpu"))
    yield from blocks_of(writer, BLOCK_BYTES, rows)
    yield end_of_file(name, recorded_counts(trace)).encode()


FORMAT = Format(
    name="chrome",
    suffixes=(".json", ".json.gz"),
    help="for chrome://tracing, Perfetto and the tools that read torch.profiler's files",
    write=write_chrome_trace,
)


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


class ExportsChromeTrace(Protocol):
    """The profiler method that the handler needs; opscope's and torch's profilers have it."""

    def export_chrome_trace(self, path: str, use_python_export: bool = ...) -> None:
        """Write the last cycle's trace."""


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[ExportsChromeTrace], None]:
    """An ``on_trace_ready`` that writes ``{worker}.{time}.pt.trace.json`` into a folder.

    Args:
        dir_name: TensorBoard's log folder; created when the first trace is written.
        worker_name: different for every process of a job; by default host name and process id.
        use_gzip: write ``.json.gz``.
        use_python_export: ignored; torch.profiler has it.

    Returns:
        A handler that never overwrites a file; UsageError if it cannot write to the folder.
    """

    refuse_address(dir_name)

    def handle(profiler: ExportsChromeTrace) -> None:
        folder = _make_folder(os.fspath(dir_name))
        # A forked worker must not use its parent's name.
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = _free_path(folder, worker, ".json.gz" if use_gzip else ".json")
        profiler.export_chrome_trace(str(path), use_python_export=use_python_export)

    return handle


def _make_folder(name: str) -> Path:
    try:
        os.makedirs(name, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"Can't create directory: {name} ({error.strerror or error}). Give "
            "tensorboard_trace_handler a folder that you may create or write to."
        ) from error
    return Path(name)


def _free_path(folder: Path, worker: str, suffix: str) -> Path:
    """A path that does not exist; two cycles may end within one tick of a coarse clock."""
    time_ns = time.time_ns()
    while (path := folder / f"{worker}.{time_ns}.pt.trace{suffix}").exists():
        time_ns += 1
    return path
