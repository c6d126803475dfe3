"""Columns for the native Chrome writer: flat columns, row ranges, and the tracks of spans.

There is a track per thread and stream, more if spans overlap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.helper_threads import is_node
from opscope.columns.codes import FlowEnd
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import Role, ScalarType
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.export.native_columns import Columns, Rows, flat, row_ranges, within
from opscope.export.output_file import to_json
from opscope.storage.chrome.vocabulary import BESIDE
from opscope.timeline.timeline import Yields, on_lanes, yields
from opscope.timeline.tree.arguments import list_of_strings
from opscope.timeline.tree.frame_text import is_python
from opscope.timeline.tree.links import Links, forward_backward_links, rank_links

Indices = npt.NDArray[np.int32]

_FIRST_FREE_TID = 1 << 22  # Linux thread ids are smaller, so lanes can have these numbers


@dataclass(frozen=True)
class Track:
    """One track of the timeline.

    Attributes:
        pid: process, or device for a stream.
        tid: thread, stream, or a unique number for a lane.
        name: as shown.
        sort_index: order of the tracks within a process.
        device: device of a stream; -1 for a thread.
        beside: for a lane, ``tid`` of its thread or stream; -1 otherwise.
    """

    pid: int
    tid: int
    name: str
    sort_index: int
    device: int = -1
    beside: int = -1

    @property
    def json(self) -> str:
        """The track as two JSON fields of an event."""
        return f'"pid":{self.pid},"tid":{self.tid}'


@dataclass(frozen=True)
class ChromeTracks:
    """The tracks, and the track of every row.

    Attributes:
        tracks: in the order of the file.
        events: row in ``tracks``, shape (events,).
        allocations: row in ``tracks``, shape (allocations,).
        gpu: row in ``tracks``, shape (gpu,).
    """

    tracks: list[Track]
    events: Indices
    allocations: Indices
    gpu: Indices


def place_on_tracks(
    trace: TraceData, order: Indices, process_id: int, process_name: str
) -> ChromeTracks:
    """Give every row a track on which spans nest; ``order`` has the events to place."""
    tracks, row_of_thread = _thread_tracks(trace, process_id, process_name)
    events, gpu = trace.events, trace.table("gpu")
    streams, stream_of_row = _stream_tracks(trace)
    event_track = row_of_thread[events["thread"]]
    event_track = _spread(tracks, event_track, order, events, yields(events))
    gpu_order = np.argsort(gpu["start_ns"], kind="stable").astype(np.int32)
    no_yields = np.broadcast_to(np.uint8(0), len(gpu))
    gpu_track = _spread(streams, stream_of_row, gpu_order, gpu, no_yields)
    return ChromeTracks(
        tracks + streams,
        event_track,
        row_of_thread[trace.table("allocations")["thread"]],
        (gpu_track + len(tracks)).astype(np.int32),
    )


def _thread_tracks(trace: TraceData, process_id: int, name: str) -> tuple[list[Track], Indices]:
    threads = trace.table("threads")
    if not len(threads):  # traces of other tools may have no threads: all rows share a track
        return [Track(process_id, process_id, f"thread {process_id} ({name})", process_id)], (
            np.zeros(1, dtype=np.int32)
        )
    # Readers identify a track by its id, and ids are reused: equal ids share a track.
    groups = group_rows(threads["process_id"], threads["system_thread_id"])
    tracks = []
    for (process, number), thread in zip(groups.rows(), groups.first, strict=True):
        label = trace.names[threads["name"][thread]] or name
        pid = process_id if process < 0 else process
        tracks.append(Track(pid, number, f"thread {number} ({label})", number))
    return tracks, groups.group.astype(np.int32)


def _stream_tracks(trace: TraceData) -> tuple[list[Track], Indices]:
    gpu = trace.table("gpu")
    streams = group_rows(gpu["device_index"], gpu["stream"])
    tracks = [Track(device, s, f"stream {s} ", s, device) for device, s in streams.rows()]
    return tracks, streams.group.astype(np.int32)


def _spread(
    tracks: list[Track], track: Indices, order: Indices, table: Table, yielding: Yields
) -> Indices:
    """Move spans that overlap without nesting to new tracks, appended to ``tracks``."""
    start, duration = table["start_ns"], table["duration_ns"]
    spread, beside = on_lanes(len(tracks), track, start, duration, order, yielding)
    free = max(_FIRST_FREE_TID, *(t.tid for t in tracks)) + 1 if beside else 0
    for i, (home, lane) in enumerate(beside):
        name = f"{tracks[home].name.rstrip()} (overlap {lane})"
        tid = tracks[home].tid
        tracks.append(replace(tracks[home], tid=free + i, name=name, beside=tid))
    return spread


_EVENTS = (
    "name", "overload", "parent", "kind", "start_ns", "duration_ns", "unfinished",
    "record_function_id",
)  # fmt: skip
_ALLOCATIONS = (
    "action", "time_ns", "address", "size_bytes", "total_allocated_bytes", "total_reserved_bytes",
    "device_type", "device_index",
)  # fmt: skip


@dataclass
class Fragments:
    """Complete ``"key":value`` texts and the events that have them."""

    texts: list[str] = field(default_factory=list)
    events: list[Rows] = field(default_factory=list)
    numbers: list[Rows] = field(default_factory=list)

    def add(self, texts: list[str], events: Rows, numbers: Rows) -> None:
        """``events[i]`` has ``texts[numbers[i]]``."""
        self.events.append(events)
        self.numbers.append(numbers + len(self.texts))
        self.texts += texts

    def columns(self, event_count: int) -> Columns:
        """The columns ``extras.*``; empty if there are no fragments."""
        if not self.texts:
            return {}
        events, numbers = np.concatenate(self.events), np.concatenate(self.numbers)
        order = np.argsort(events, kind="stable")
        return {
            "extras.rows": row_ranges(events, event_count),
            "extras.fragment": numbers[order].astype(np.int32),
        }


def event_order(trace: TraceData, with_python: bool) -> npt.NDArray[np.int32]:
    """Rows of ``events`` to write."""
    if with_python:
        return np.arange(len(trace.events), dtype=np.int32)
    return np.flatnonzero(~is_python(trace.events)).astype(np.int32)


def event_columns(trace: TraceData) -> Columns:
    """``events.*`` except ``order`` and ``track``."""
    number, thread = backward_numbers(trace)
    has_category = trace.events.has("category")
    columns = flat("events", trace.events, (*_EVENTS, *["category"] * has_category))
    return columns | {"events.sequence_number": number, "events.forward_thread": thread}


def extra_columns(trace: TraceData, places: ChromeTracks) -> tuple[Columns, list[str]]:
    """``extras.*`` and their texts: threads of lanes, keywords, modules, TorchScript locations."""
    fragments = Fragments()
    _add_threads(places, fragments)
    _add_keywords(trace, fragments)
    _add_modules(trace, fragments)
    _add_script_locations(trace, fragments)
    return fragments.columns(len(trace.events)), fragments.texts


def _add_keywords(trace: TraceData, fragments: Fragments) -> None:
    scalars = trace.table("scalars")
    wanted = (scalars["role"] == Role.KEYWORD) & (scalars["keyword"] >= 0)
    rows = np.flatnonzero(wanted & within(scalars["event"], len(trace.events)))
    if not len(rows):
        return
    groups = group_rows(*(scalars[name][rows] for name in ("keyword", "type", "value")))
    texts = [
        keyword_fragment(trace.names[keyword], kind, trace.names[value])
        for keyword, kind, value in groups.rows()
    ]
    number = groups.group
    kept = np.array([text is not None for text in texts])[number]
    fragments.add(
        [text or "" for text in texts], scalars["event"][rows][kept].astype(np.int64), number[kept]
    )


def _add_threads(places: ChromeTracks, fragments: Fragments) -> None:
    beside = np.array([track.beside for track in places.tracks], dtype=np.int64)
    rows = np.flatnonzero(beside[places.events] >= 0)
    if len(rows):
        texts = [f'"{BESIDE}":{tid}' for tid in beside]
        fragments.add(texts, rows, places.events[rows].astype(np.int64))


def _add_modules(trace: TraceData, fragments: Fragments) -> None:
    calls = trace.table("python_calls")
    wanted = within(calls["module"], len(trace.table("modules")))
    rows = np.flatnonzero(wanted & within(calls["event"], len(trace.events)))
    if not len(rows):
        return
    texts = [f'"Python module id":{n}' for n in _instance_numbers(trace)]
    fragments.add(
        texts, calls["event"][rows].astype(np.int64), calls["module"][rows].astype(np.int64)
    )


def _add_script_locations(trace: TraceData, fragments: Fragments) -> None:
    calls = trace.table("script_calls")
    for column, key in (("functions", "Call stack"), ("modules", "Module Hierarchy")):
        wanted = within(calls[column], len(trace.names))
        rows = np.flatnonzero(wanted & within(calls["event"], len(trace.events)))
        if len(rows):
            names, number = np.unique(calls[column][rows], return_inverse=True)
            texts = [f'"{key}":{json.dumps(trace.names[name])}' for name in names]
            fragments.add(texts, calls["event"][rows].astype(np.int64), number.reshape(-1))


def _instance_numbers(trace: TraceData) -> Iterator[int]:
    """The N of ``Linear_N`` for every module: the number of earlier modules of its class."""
    seen: dict[int, int] = {}
    for class_name in trace.table("modules")["class_name"]:
        number = seen.get(int(class_name), 0)
        seen[int(class_name)] = number + 1
        yield number


def flow_columns(trace: TraceData) -> Columns:
    """``flows.*``: starts and ends of arrows, numbered from 1 in order of their ends."""
    gpu, count = trace.table("gpu"), len(trace.events)
    links = [_valid(each(trace), count) for each in (forward_backward_links, rank_links)]
    numbers = np.arange(1, sum(map(len, links)) + 1)
    launched = np.flatnonzero(within(gpu["launch"], count))
    launches, first = np.unique(gpu["launch"][launched], return_index=True)
    launched = launched[first]  # one arrow per call, also if it launched several kernels
    sides = [[pair.source for pair in links], [pair.target for pair in links]]
    event = np.concatenate([*sides[0], *sides[1], launches])
    if not len(event):
        return {}
    counts = [*(len(pair) for pair in links + links), len(launched)]
    kinds = (FlowEnd.FORWARD, FlowEnd.WAITING, FlowEnd.BACKWARD, FlowEnd.AWAITED, FlowEnd.LAUNCH)
    ends = np.repeat(np.array(kinds, dtype=np.uint8), counts)
    ids = np.concatenate([numbers, numbers, gpu["correlation_id"][launched]])
    order = np.argsort(event, kind="stable")
    return {
        "flows.rows": row_ranges(event, count),
        "flows.id": ids[order],
        "flows.end": ends[order],
    }


def _valid(links: Links, count: int) -> Links:
    valid = within(links.source, count) & within(links.target, count)
    return Links(links.source[valid], links.target[valid])


def allocation_columns(trace: TraceData) -> Columns:
    """``allocations.*`` except ``track``."""
    return flat("allocations", trace.table("allocations"), _ALLOCATIONS)


def backward_numbers(trace: TraceData) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """``events.sequence_number`` and ``events.forward_thread``, also for autograd's evaluations.

    torch records both only on the node inside ``autograd::engine::evaluate_function: MmBackward0``.
    Kineto's files have them on both spans; readers use them to find backward calls.
    """
    events = trace.events
    number, thread, parent = (
        events[name] for name in ("sequence_number", "forward_thread", "parent")
    )
    is_evaluation = is_node(trace) & (number < 0)
    if not is_evaluation.any():
        return number, thread
    nodes = np.flatnonzero((number >= 0) & (parent >= 0) & (parent < len(events)))
    # the first is written last
    nodes = nodes[is_evaluation[parent[nodes]]][::-1]
    number, thread = number.copy(), thread.copy()
    number[parent[nodes]] = number[nodes]
    thread[parent[nodes]] = thread[nodes]
    return number, thread


RESERVED = frozenset({
    "External id", "Record function id", "Sequence number", "Fwd thread id", "Concrete Inputs",
    "Input type", "Input Strides", "Input Dims", "Ev Idx", "finished",
})  # fmt: skip
"""Keys with a meaning for readers; a keyword argument of that name is omitted."""

_REQUIRED_TYPE = {"stream": ScalarType.INT, "grid": ScalarType.STRING}


def keyword_fragment(keyword: str, kind: int, text: str) -> str | None:
    """``"keyword":value``; None if torch omits it.

    torch writes integers, floats, booleans, strings and lists of strings. ``stream`` must be an
    integer and ``grid`` a string because readers rely on it. A string with a quote becomes "None".
    """
    if keyword in RESERVED or _REQUIRED_TYPE.get(keyword, kind) != kind:
        return None
    value = _value(kind, text)
    return None if value is None else f"{to_json(keyword)}:{to_json(value)}"


def _value(kind: int, text: str) -> Any:
    if kind == ScalarType.STRING:
        return "None" if '"' in text else text
    if kind == ScalarType.BOOL:
        return text == "True"
    try:
        if kind == ScalarType.INT:
            return int(text)
        if kind == ScalarType.FLOAT:
            number = float(text)
            return number if math.isfinite(number) else text
        if kind == ScalarType.OTHER_LIST:
            return list_of_strings(text)
    except ValueError:
        pass  # the text does not fit its type, so torch did not write it
    return None
