"""What a Perfetto trace says of its tracks: processes, threads, streams, lanes, counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from opscope.export.protobuf import message
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
    """Descriptors so far; every track has a number of its own, from 1.

    Attributes:
        packets: finished bytes of the file.
    """

    packets: list[bytes] = field(default_factory=list)
    _count: int = 0

    def process(self, process_id: int, name: str, labels: Iterable[str]) -> int:
        """A process; threads and counters are shown under it."""
        process = message((1, process_id), (6, name), *((8, label) for label in labels))
        return self._add((_PROCESS, process), (_ORDERING, _EXPLICIT))

    def thread(self, process_id: int, line: Line) -> int:
        """A thread; viewers group it by the process's number."""
        thread = message((1, process_id), (2, line.number), (5, line.name))
        return self._add((_THREAD, thread))

    def group(self, name: str, parent: int = 0, rank: int = 0) -> int:
        """A named track: a device, a stream, or a lane beside a thread."""
        above = [(_PARENT, parent)] if parent else []
        return self._add((_NAME, name), *above, (_RANK, rank))

    def counter(self, name: str, parent: int) -> int:
        """A number of bytes over time."""
        unit = message((3, _SIZE_BYTES))
        return self._add((_NAME, name), (_PARENT, parent), (_COUNTER, unit))

    def lines(self, lines: list[Line], home_tracks: list[int]) -> list[int]:
        """Tracks of all ``lines``, where those of lane 0 are given; lanes go under them."""
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
    """Says that the file's times (BOOTTIME, to Perfetto) are Unix times (REALTIME)."""
    clocks = [(1, message((1, clock), (2, time_ns))) for clock in (6, 1)]
    packet = message((_SEQUENCE, HEADER_SEQUENCE), (6, message(*clocks)))
    return message((_PACKET, packet))


def instant_packet(track: int, time_ns: int, name: str, category: str) -> bytes:
    """A moment on a track, such as a failed allocation."""
    event = message((9, 3), (11, track), (22, category), (23, name))
    packet = message((8, time_ns), (_SEQUENCE, HEADER_SEQUENCE), (58, 6), (11, event))
    return message((_PACKET, packet))
