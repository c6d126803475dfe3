"""Perfetto's messages: tracks of processes, threads, streams, lanes, counters; device work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.columns.trace_data import TraceData
from opscope.timeline.listing import COPY, KERNEL, SET
from opscope.timeline.tree.line_nesting import Line

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
