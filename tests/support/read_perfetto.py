"""Read a .pftrace with Perfetto's own protocol buffers, as its trace processor does.

Replays each packet sequence: interned texts, defaults, incremental times, begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
STATE_CLEARED = 1


@dataclass
class Slice:
    """A slice; times are Unix nanoseconds, ``track`` is its name with those above it."""

    name: str
    category: str
    start: int
    end: int | None
    track: str
    flows: list[int] = field(default_factory=list)
    ends_flows: list[int] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class PerfettoFile:
    """What a viewer would show; ``counters`` maps a track to its (time, value) pairs."""

    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    tracks: dict[int, Any] = field(default_factory=dict)

    def track_name(self, uuid: int) -> str:
        track = self.tracks[uuid]
        if track.HasField("process"):
            return track.process.process_name
        if track.HasField("thread"):
            return track.thread.thread_name or f"thread {track.thread.tid}"
        above = f"{self.track_name(track.parent_uuid)}/" if track.parent_uuid else ""
        return above + track.name


class _Sequence:
    def __init__(self) -> None:
        self.texts: dict[str, dict[int, str]] = {}
        self.track = 0
        self.time = 0
        self.incremental = False
        self.valid = False
        self.open: dict[int, list[Slice]] = {}

    def learn(self, packet: Any) -> None:
        if packet.sequence_flags & STATE_CLEARED:
            self.texts, self.valid = {}, True
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                self._add(kind, entry.iid, entry.name)
        for entry in packet.interned_data.debug_annotation_string_values:
            self._add("values", entry.iid, entry.str.decode())
        if packet.HasField("trace_packet_defaults"):
            self.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        clocks = {clock.clock_id: clock for clock in packet.clock_snapshot.clocks}
        if 64 in clocks:
            assert clocks[64].is_incremental
            self.incremental, self.time = True, clocks[6].timestamp - clocks[64].timestamp

    def _add(self, kind: str, iid: int, text: str) -> None:
        known = self.texts.setdefault(kind, {})
        assert iid not in known, "interned twice"
        known[iid] = text

    def time_of(self, packet: Any) -> int:
        if not self.incremental or packet.timestamp_clock_id == 6:
            return packet.timestamp
        self.time += packet.timestamp
        return self.time


def read_perfetto(path: Path) -> PerfettoFile:
    """Decode a file; asserts that every begin has an end and that ends match by nesting."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    file, sequences = PerfettoFile(), {}
    for packet in trace.packet:
        sequence = sequences.setdefault(packet.trusted_packet_sequence_id, _Sequence())
        sequence.learn(packet)
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in file.tracks
            file.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("track_event"):
            _read_event(file, sequence, packet)
    assert not any(stack for s in sequences.values() for stack in s.open.values()), "left open"
    return file


def _read_event(file: PerfettoFile, sequence: _Sequence, packet: Any) -> None:
    event, time = packet.track_event, sequence.time_of(packet)
    uuid = event.track_uuid or sequence.track
    track = file.track_name(uuid)
    stack = sequence.open.setdefault(uuid, [])
    if event.type == COUNTER:
        file.counters.setdefault(track, []).append((time, event.counter_value))
    elif event.type == END:
        stack.pop().end = time
    else:
        texts = sequence.texts
        name = event.name or texts["event_names"][event.name_iid]
        category = (
            event.categories[0]
            if event.categories
            else texts["event_categories"][event.category_iids[0]]
        )
        found = Slice(name, category, time, None, track)
        found.flows, found.ends_flows = list(event.flow_ids), list(event.terminating_flow_ids)
        found.arguments = dict(_arguments(texts, event))
        if event.type == INSTANT:
            file.instants.append(found)
        else:
            assert sequence.valid
            file.slices.append(found)
            stack.append(found)


def _arguments(texts: dict[str, dict[int, str]], event: Any) -> Iterator[tuple[str, Any]]:
    for annotation in event.debug_annotations:
        name = texts["debug_annotation_names"][annotation.name_iid]
        if annotation.HasField("string_value_iid"):
            yield name, texts["values"][annotation.string_value_iid]
        elif annotation.HasField("bool_value"):
            yield name, annotation.bool_value
        else:
            yield name, annotation.int_value
