"""A trace in Perfetto's native format (``.pftrace``), for https://ui.perfetto.dev.

The file has a tenth of the size of Chrome JSON, a legacy format for Perfetto. Native code writes
the packets in blocks without the GIL; memory is a few blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.analysis.memory.counters import MemoryCounter, memory_counters
from opscope.base.reused_memory import reusing_memory
from opscope.columns.codes import CATEGORIES, GpuKind
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.labels import device_title
from opscope.columns.names import Names
from opscope.columns.schema import AllocationAction, EventKind
from opscope.columns.trace_data import TraceData
from opscope.export.format import Format
from opscope.export.native_columns import argument_columns, blocks_of, list_columns, row_ranges
from opscope.export.output_file import Block, write_file
from opscope.timeline.listing import COPY, KERNEL, SET
from opscope.timeline.timeline import Placement, place_events, place_gpu
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.line_nesting import Line
from opscope.timeline.tree.links import arrows
from opscope.timeline.window import process_id_of, process_name_of, window_of

_PACKET = 1
_SEQUENCE, _DESCRIPTOR = 10, 60  # fields of TracePacket
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8  # of TrackDescriptor
_ORDERING, _RANK = 11, 12
_EXPLICIT = 3
_SIZE_BYTES = 3  # CounterDescriptor.Unit
HEADER_SEQUENCE = 1


@dataclass
class PerfettoTracks:
    """Track descriptors; tracks are numbered from 1."""

    packets: list[bytes] = field(default_factory=list)
    _count: int = 0

    def process(self, process_id: int, name: str, labels: Iterable[str]) -> int:
        """Add a process; viewers show its threads and counters under it."""
        process = message((1, process_id), (6, name), *((8, label) for label in labels))
        return self._add((_PROCESS, process), (_ORDERING, _EXPLICIT))

    def thread(self, process_id: int, line: Line) -> int:
        """Add a thread; viewers group threads by process number."""
        thread = message((1, process_id), (2, line.number), (5, line.name))
        return self._add((_THREAD, thread))

    def group(self, name: str, parent: int = 0, rank: int = 0) -> int:
        """Add a named track: a device, a stream, or a lane beside a thread."""
        above = [(_PARENT, parent)] if parent else []
        return self._add((_NAME, name), *above, (_RANK, rank))

    def counter(self, name: str, parent: int) -> int:
        """Add a counter of bytes over time."""
        unit = message((3, _SIZE_BYTES))
        return self._add((_NAME, name), (_PARENT, parent), (_COUNTER, unit))

    def lines(self, lines: list[Line], home_tracks: list[int]) -> list[int]:
        """The track of each line: ``home_tracks`` for lane 0, a new track under it otherwise."""
        tracks = list(home_tracks)
        for line in lines[len(home_tracks) :]:
            tracks.append(self.group(f"overlap {line.lane}", home_tracks[line.home], line.lane))
        return tracks

    def _add(self, *fields: tuple[int, int | str | bytes]) -> int:
        self._count += 1
        descriptor = message((_UUID, self._count), *fields)
        packet = message((_SEQUENCE, HEADER_SEQUENCE), (_DESCRIPTOR, descriptor))
        self.packets.append(message((_PACKET, packet)))
        return self._count


def clock_packet(time_ns: int) -> bytes:
    """Declare that the file's times (BOOTTIME for Perfetto) are Unix times (REALTIME)."""
    clocks = [(1, message((1, clock), (2, time_ns))) for clock in (6, 1)]
    packet = message((_SEQUENCE, HEADER_SEQUENCE), (6, message(*clocks)))
    return message((_PACKET, packet))


def instant_packet(track: int, time_ns: int, name: str, category: str) -> bytes:
    """An instant on a track, such as a failed allocation."""
    event = message((9, 3), (11, track), (22, category), (23, name))
    packet = message((8, time_ns), (_SEQUENCE, HEADER_SEQUENCE), (58, 6), (11, event))
    return message((_PACKET, packet))


Value = int | str | bytes | bool


def message(*fields: tuple[int, Value]) -> bytes:
    """Encode fields by number, in order: integers (varints), texts, or encoded messages."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(int(value) % 2**64)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A number in base-128 varint encoding."""
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


Values = npt.NDArray[np.int64]

_ABSENT = np.int64(-1)


def gpu_numbers(trace: TraceData) -> dict[str, Values]:
    """Columns by Kineto's names, shape (gpu rows,); -1 if a row has no value."""
    gpu = trace.table("gpu")
    kind = gpu["kind"]
    # Every kernel uses registers, so 0 means that the number was not recorded.
    measured = (kind == KERNEL) & (gpu["registers_per_thread"] > 0)
    in_graph = gpu["graph_node"] != 0
    numbers = {
        "correlation": _where(gpu["correlation_id"] > 0, gpu["correlation_id"]),
        "stream": _where(gpu["stream"] >= 0, gpu["stream"]),
        "bytes": _where((kind == COPY) | (kind == SET), gpu["size_bytes"]),
        "registers per thread": _where(measured, gpu["registers_per_thread"]),
        "shared memory": _where(measured, gpu["shared_memory_bytes"]),
        "graph id": _where(in_graph, gpu["graph"]),
        "graph node id": _where(in_graph, gpu["graph_node"]),
    }
    occupancy = kernel_occupancy(trace)
    if occupancy is not None:
        percent = np.rint(occupancy.occupancy * 100)
        numbers["est. achieved occupancy %"] = _where(measured, percent)
    return {name: values for name, values in numbers.items() if (values != _ABSENT).any()}


def _where(present: npt.NDArray[np.bool_], values: npt.NDArray[np.generic]) -> Values:
    return np.where(present, values.astype(np.int64), _ABSENT)


Columns = dict[str, npt.NDArray[Any]]

BLOCK_BYTES = 4 << 20

_GPU_CATEGORIES = [kind.name.lower() for kind in GpuKind]
_UNKNOWN = "unknown"  # event kinds of a newer opscope
_PROCESS_RANK = 1000  # devices are shown after processes


@reusing_memory
def write_perfetto(trace: TraceData, path: str | os.PathLike[str]) -> None:
    """Write ``trace`` to ``path`` (by convention ``.pftrace``), compressed if that ends in ``.gz``.

    Every span of ``events`` and ``gpu`` is one slice; spans that overlap without nesting are on
    separate lanes. Arrows connect forward with backward operators and launches with device work.
    Memory in use is a counter per device.
    """
    write_file(path, perfetto_blocks(trace))


def perfetto_blocks(trace: TraceData) -> Iterator[Block]:
    """The file in blocks of a few megabytes."""
    metadata = trace.metadata
    events, gpu = place_events(trace), place_gpu(trace)
    counters = memory_counters(trace)
    base_ns = max(window_of(trace, metadata).start_ns, 0)
    tracks = _TrackDescriptions(trace, metadata, events, gpu, counters)
    numbers = gpu_numbers(trace)
    writer = _native.PerfettoWriter(
        {
            **_name_columns(trace),
            **_event_columns(trace, events),
            **argument_columns(trace),
            **_gpu_columns(trace, gpu),
            **{f"gpu.{name}": values for name, values in numbers.items()},
            **_flow_columns(trace),
            **_counter_columns(counters),
        },
        event_tracks=tracks.events,
        gpu_tracks=tracks.gpu,
        counter_tracks=tracks.counters,
        categories=[*(CATEGORIES[kind] for kind in sorted(EventKind)), *_GPU_CATEGORIES, _UNKNOWN],
        gpu_numbers=list(numbers),
        dtype_names=[TORCH_NAMES.get(code, "") for code in range(max(TORCH_NAMES) + 1)],
        header=clock_packet(base_ns) + b"".join(tracks.packets),
        base_ns=base_ns,
        first_sequence=HEADER_SEQUENCE,
    )
    values = sum(len(counter.allocated_bytes) + len(counter.reserved_bytes) for counter in counters)
    rows = len(trace.events) + len(trace.table("gpu")) + values
    yield from blocks_of(writer, BLOCK_BYTES, rows)


class _TrackDescriptions:
    """Numbers of all tracks, and the packets that describe them."""

    def __init__(
        self,
        trace: TraceData,
        metadata: dict[str, Any],
        events: Placement,
        gpu: Placement,
        counters: list[MemoryCounter],
    ) -> None:
        tracks = PerfettoTracks()
        process_id = process_id_of(trace, metadata)
        process = tracks.process(process_id, process_name_of(metadata, process_id), ["CPU"])
        homes = [line for line in events.lines if line.lane == 0]
        for other in sorted({line.process for line in homes} - {-1, process_id}):
            tracks.process(other, process_name_of(metadata, other), ["CPU"])
        threads = [
            tracks.thread(process_id if line.process < 0 else line.process, line) for line in homes
        ]
        self.events = tracks.lines(events.lines, threads)
        self.gpu = tracks.lines(gpu.lines, _streams(tracks, gpu))
        self.counters = []
        for counter in counters:
            title = device_title(counter.device)
            self.counters.append(tracks.counter(f"{title} memory allocated", process))
            if len(counter.reserved_bytes):
                self.counters.append(tracks.counter(f"{title} memory reserved", process))
        self.packets = tracks.packets + _failed_allocations(trace, process)


def _streams(tracks: PerfettoTracks, gpu: Placement) -> list[int]:
    devices: dict[int, int] = {}
    streams = []
    for line in gpu.lines:
        if line.lane:
            continue
        if line.device not in devices:
            name = f"GPU {line.device}"
            devices[line.device] = tracks.group(name, rank=_PROCESS_RANK + line.device)
        streams.append(tracks.group(line.name, devices[line.device], line.number))
    return streams


def _failed_allocations(trace: TraceData, process: int) -> list[bytes]:
    table = trace.table("allocations")
    failed = np.flatnonzero(table["action"] == AllocationAction.OUT_OF_MEMORY)
    return [
        instant_packet(process, int(table["time_ns"][row]), "out of memory", "memory")
        for row in failed
    ]


def _name_columns(trace: TraceData) -> Columns:
    """``values.*``: the trace's names as valid UTF-8, for the texts of scalars."""
    names = trace.names
    try:
        names.blob.decode()
    except UnicodeDecodeError:
        names = Names.from_strings(names)
    return {
        "values.offsets": np.asarray(names.offsets, dtype=np.int64),
        "values.bytes": np.frombuffer(names.blob, dtype=np.uint8),
    }


def _event_columns(trace: TraceData, placement: Placement) -> Columns:
    events = trace.events
    order, lines = placement.by_line()
    label, texts = _span_names(trace)
    gpu_label, gpu_texts = _gpu_names(trace)
    names = Names.from_strings([*texts, *gpu_texts])
    columns: Columns = {
        "names.offsets": names.offsets,
        "names.bytes": np.frombuffer(names.blob, dtype=np.uint8),
        "events.order": order,
        "events.lines": lines,
        "events.name": label,
        "events.category": np.minimum(events["kind"], len(EventKind) + len(_GPU_CATEGORIES)),
        "events.start_ns": events["start_ns"],
        "events.duration_ns": placement.duration_ns,
        "gpu.name": (gpu_label + len(texts)).astype(np.int32),
    }
    if events["unfinished"].any():
        columns["events.unfinished"] = events["unfinished"]
    return columns


def _span_names(trace: TraceData) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Texts of events, with the overload if one was recorded: ``aten::add.Tensor``."""
    label, texts = own_texts(trace)
    overload = trace.events["overload"]
    if not len(overload) or overload.max() < 0:
        return label.astype(np.int32), texts
    size = int(overload.max()) + 2
    key = label * size + overload + 1
    used = np.unique(key)
    full = [_with_overload(texts[k // size], trace.names[k % size - 1]) for k in used.tolist()]
    return np.searchsorted(used, key).astype(np.int32), full


def _with_overload(text: str, overload: str) -> str:
    return f"{text}.{overload}" if overload else text


def _gpu_names(trace: TraceData) -> tuple[npt.NDArray[np.int64], list[str]]:
    used, label = np.unique(trace.table("gpu")["name"], return_inverse=True)
    return label.reshape(-1), [trace.names[name] for name in used]


def _gpu_columns(trace: TraceData, placement: Placement) -> Columns:
    gpu = trace.table("gpu")
    order, lines = placement.by_line()
    kind = np.minimum(gpu["kind"], len(_GPU_CATEGORIES) - 1)
    return {
        "gpu.order": order,
        "gpu.lines": lines,
        "gpu.category": (kind + len(EventKind)).astype(np.uint8),
        "gpu.start_ns": gpu["start_ns"],
        "gpu.duration_ns": placement.duration_ns,
        **list_columns("gpu.grid", gpu.lists("grid")),
        **list_columns("gpu.block", gpu.lists("block")),
    }


def _flow_columns(trace: TraceData) -> Columns:
    """Arrows: numbers 1 to n between spans, then one per launch."""
    links = arrows(trace)
    launch = trace.table("gpu")["launch"]
    launched = np.flatnonzero(launch >= 0)
    numbers = np.arange(1, len(links) + 1, dtype=np.uint64)
    launches = np.arange(len(launched), dtype=np.uint64) + np.uint64(len(links) + 1)
    columns: Columns = {}
    if len(launched):
        counts = np.zeros(len(launch) + 1, dtype=np.int64)
        np.cumsum(launch >= 0, out=counts[1:])
        columns["gpu.flow_rows"] = counts
        columns["gpu.flow_id"] = launches
        columns["gpu.flow_ends"] = np.ones(len(launched), dtype=np.bool_)
    event = np.concatenate([links.source, links.target, launch[launched]])
    if len(event):
        order = np.argsort(event, kind="stable")
        ends = np.zeros(len(event), dtype=np.bool_)
        ends[len(links) : 2 * len(links)] = True
        columns["events.flow_rows"] = row_ranges(event, len(trace.events))
        columns["events.flow_id"] = np.concatenate([numbers, numbers, launches])[order]
        columns["events.flow_ends"] = ends[order]
    return columns


def _counter_columns(counters: list[MemoryCounter]) -> Columns:
    series = []
    for counter in counters:
        series.append((counter.time_ns, counter.allocated_bytes))
        if len(counter.reserved_bytes):
            series.append((counter.time_ns, counter.reserved_bytes))
    columns: Columns = {}
    for i, (time_ns, value) in enumerate(series):
        columns |= {f"counter{i}.time_ns": time_ns, f"counter{i}.value": value}
    return columns


FORMAT = Format(
    name="perfetto",
    suffixes=(".pftrace", ".pftrace.gz", ".perfetto-trace"),
    help="Perfetto's own format, a tenth of the size",
    write=write_perfetto,
)
