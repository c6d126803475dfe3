"""Streams: how long launched work waits, and how much of it waits at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.device_use.stretches import union_of
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StreamUse:
    """One stream of a device.

    Attributes:
        stream: its number.
        work: kernels, copies and sets on it.
        busy_ns: in which it did any.
        launches: calls that started work on it; a graph counts once.
        delay_median_ns: from the beginning of such a call until its first work begins, the median;
            -1 where no launch is known.
        delay_90_ns: of ten launches one takes longer.
        delay_max_ns: the longest.
        begun_early: of ``launches``, those whose work began before them by the clocks of host and
            device; they count as if it had begun with them.
        depth_mean: launches that wait to begin, on average over the time looked at.
        depth_max: at most.
    """

    stream: int
    work: int
    busy_ns: int
    launches: int
    delay_median_ns: int
    delay_90_ns: int
    delay_max_ns: int
    begun_early: int
    depth_mean: float
    depth_max: int


def times_between(trace: TraceData, rows: Values, bounds: tuple[int, int]) -> tuple[Values, Values]:
    """Beginning and end of work, cut to the time between two moments."""
    start = trace.table("gpu")["start_ns"][rows]
    end = start + trace.table("gpu")["duration_ns"][rows]
    return start.clip(*bounds), end.clip(*bounds)


def streams_of(trace: TraceData, rows: Values, bounds: tuple[int, int]) -> tuple[StreamUse, ...]:
    """The streams of one device, busiest first.

    Args:
        trace: any.
        rows: its work, rows in ``gpu`` in order of start.
        bounds: the time looked at, Unix nanoseconds.
    """
    streams = trace.table("gpu")["stream"][rows]
    found = [
        _stream(trace, rows[streams == stream], stream, bounds)
        for stream in np.unique(streams).tolist()
    ]
    return tuple(sorted(found, key=lambda stream: -stream.busy_ns))


def _stream(trace: TraceData, rows: Values, stream: int, bounds: tuple[int, int]) -> StreamUse:
    gpu, events = trace.table("gpu"), trace.events
    start = gpu["start_ns"][rows]
    busy = union_of(*times_between(trace, rows, bounds))
    launch = gpu["launch"][rows]
    known = np.flatnonzero(launch >= 0)
    known = known[events["kind"][launch[known]] == EventKind.RUNTIME_CALL]
    calls, first = np.unique(launch[known], return_index=True)
    launched, begun = events["start_ns"][calls], start[known[first]]
    delay = np.maximum(begun - launched, 0)
    waits = (launched + delay).clip(*bounds) - launched.clip(*bounds)
    median, most, longest = (
        map(int, np.percentile(delay, (50, 90, 100))) if len(delay) else (-1, -1, -1)
    )
    return StreamUse(
        stream=stream,
        work=len(rows),
        busy_ns=busy.total_ns,
        launches=len(calls),
        delay_median_ns=median,
        delay_90_ns=most,
        delay_max_ns=longest,
        begun_early=int(np.count_nonzero(begun < launched)),
        depth_mean=float(waits.sum()) / max(bounds[1] - bounds[0], 1),
        depth_max=_deepest(launched, launched + delay),
    )


def _deepest(launched: Values, begun: Values) -> int:
    """Most launches that were waiting at once."""
    if not len(launched):
        return 0
    at = np.sort(launched)
    waiting = np.arange(1, len(at) + 1) - np.searchsorted(np.sort(begun), at, side="right")
    return int(waiting.max())
