"""The tracks of a Chrome trace: one per thread and stream, more if spans overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from opscope.columns.row_groups import group_rows
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.timeline import Yields, on_lanes, yields

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
