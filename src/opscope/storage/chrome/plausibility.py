"""Plausibility of times in a file: rows with impossible times are omitted or cut.

A writer may lose a time (0), or write it in another unit or of another clock. Such a number is far
from all others, or longer than its stream allows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import AllocationAction, DeviceType, EventKind, GpuKind
from opscope.columns.ledger import Doubt
from opscope.columns.nesting import enclosing
from opscope.storage.chrome.native_columns import CollectedEvents

Int64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_DAY_NS = 86_400 * 10**9
_FAR_NS = 10 * 10**9
_FAR = 1000
"""Rows are far from the others if the distance is this many times the duration of the others."""
_MAX_LATE_END_NS = 10**9  # computing does not end this much later than all else
_MIN_LOST_NS = 10_000_000
_LOST_FACTOR = 10  # the same for rows whose time and duration are 0, a writer's value for "unknown"
_FEWEST = 3  # fewer rows do not determine a range
_MAX_LENGTH_FACTOR = 10
_MAX_EXCESS_NS = 1_000_000
"""Work is cut if its duration exceeds the time to the next start on its stream by this factor and
this time; ``columns.device_rules`` checks smaller excesses."""

LEFT_OUT = "rows are ignored, because their times are 0 or far from all others"
FAR_AWAY = "rows are far from all others"
TOO_LONG_SPANS = "spans end long after all others, and are cut there"
TOO_LONG_WORK = "device activities overlap the next one of their stream, and are cut there"

OVERRUN = "calls end after their caller"
_CLOCK_ERROR_NS = 100_000  # a writer reads the clock of two calls at most some microseconds late
_MIN_OVERRUN_SHARE = 0.001  # a smaller share of the recording changes no answer
TOO_LARGE = "allocations are ignored, because their size is impossible"
_ADDRESSES_BYTES = 1 << 47


class _TimeRange(NamedTuple):
    low: int
    high: int
    farthest_ns: int
    doubted: int
    doubted_ns: int


def judge_times(collected: CollectedEvents) -> None:
    """Omit rows with impossible times, cut impossible durations, and add ``doubts``."""
    columns = _times(collected)
    total = sum(map(len, columns.values()))
    if not total:
        return
    lost_ns = _omit_lost(collected, columns)
    columns = _times(collected)
    plausible = _plausible_range(np.concatenate(list(columns.values())))
    for name, times in columns.items():
        keep = (times >= plausible.low) & (times <= plausible.high)
        if not keep.all():
            collected.keep(name, keep)
    omitted = total - sum(map(len, _times(collected).values()))
    farthest_ns = max(plausible.farthest_ns, lost_ns)
    collected.doubts += [
        Doubt(LEFT_OUT, omitted, total, farthest_ns),
        Doubt(FAR_AWAY, plausible.doubted, total, plausible.doubted_ns),
    ]
    _omit_impossible_sizes(collected)
    _cut_spans(collected, plausible)
    _cut_work(collected)
    gpu = collected.gpu
    ends = (gpu["start_ns"] + gpu["duration_ns"])[gpu["kind"] <= GpuKind.SET]
    _doubt_ends(collected, "device activities", ends, plausible)


def _times(collected: CollectedEvents) -> dict[str, Int64]:
    return {
        "spans": collected.spans["start_ns"],
        "gpu": collected.gpu["start_ns"],
        "allocations": collected.allocations["time_ns"],
        "overheads": collected.overheads["start_ns"],
    }


def _omit_impossible_sizes(collected: CollectedEvents) -> None:
    sizes, action = (collected.allocations[name] for name in ("size_bytes", "action"))
    possible = (np.abs(sizes) < _ADDRESSES_BYTES) | (action == AllocationAction.OUT_OF_MEMORY)
    if not possible.all():
        collected.doubts.append(Doubt(TOO_LARGE, int((~possible).sum()), len(sizes)))
        collected.keep("allocations", possible)


def _omit_lost(collected: CollectedEvents, columns: dict[str, Int64]) -> int:
    """Omit rows at 0 without duration if all others are far from 0; returns their distance."""
    is_lost = {name: _is_lost(collected, name, times) for name, times in columns.items()}
    if not any(rows_lost.any() for rows_lost in is_lost.values()):
        return 0
    others = np.concatenate([times[~is_lost[name]] for name, times in columns.items()])
    if not len(others):
        return 0
    nearest = int(np.abs(others).min())
    if nearest < max(_LOST_FACTOR * int(others.max() - others.min()), _MIN_LOST_NS):
        return 0
    for name, rows_lost in is_lost.items():
        if rows_lost.any():
            collected.keep(name, ~rows_lost)
    return nearest


def _is_lost(collected: CollectedEvents, name: str, times: Int64) -> Flags:
    is_zero: Flags = times == 0
    durations = getattr(collected, name).get("duration_ns")
    return is_zero if durations is None else is_zero & (durations == 0)


def _plausible_range(times: Int64) -> _TimeRange:
    """The range that contains most times, without a large hole."""
    low, high = int(times.min(initial=0)), int(times.max(initial=0))
    low = int(times.min()) if len(times) else low
    full_range = _TimeRange(low, high, 0, 0, 0)
    if high - low < _FAR_NS or len(times) <= _FEWEST or not _is_crowded(times, low, high):
        return full_range
    times = np.sort(times)
    begin, end, farthest, doubted, doubted_ns = 0, len(times), 0, 0, 0
    while end - begin > _FEWEST:
        gaps = np.diff(times[begin:end])
        border = begin + int(np.argmax(gaps)) + 1
        gap = int(gaps[border - begin - 1])
        keeps_later = end - border >= border - begin
        first, last = (border, end) if keeps_later else (begin, border)
        if gap < max(_FAR * int(times[last - 1] - times[first]), _FAR_NS) or last - first < _FEWEST:
            break
        if gap >= _DAY_NS:
            farthest = max(farthest, gap)
            low, high = int(times[first]), int(times[last - 1])
        else:
            doubted, doubted_ns = doubted + end - begin - last + first, max(doubted_ns, gap)
        begin, end = first, last
    return _TimeRange(low, high, farthest, doubted, doubted_ns)


def _is_crowded(times: Int64, low: int, high: int) -> bool:
    """Whether most times are in a small part of the range, as with a few outliers."""
    part = (times - low) // ((high - low) // (_FAR // 2) + 1)
    return bool(np.bincount(part).max() * 2 >= len(times))


def _cut_spans(collected: CollectedEvents, plausible: _TimeRange) -> None:
    spans = collected.spans
    length_ns = plausible.high - plausible.low
    end = spans["start_ns"] + spans["duration_ns"]
    too_long = end > plausible.high + max(_FAR * length_ns, _DAY_NS)
    _doubt_ends(
        collected, "operators", end[(spans["kind"] == EventKind.OPERATOR) & ~too_long], plausible
    )
    if not too_long.any():
        return
    longest = int(spans["duration_ns"][too_long].max())
    spans["duration_ns"] = np.where(too_long, 0, spans["duration_ns"])
    spans["unfinished"] = np.where(too_long, 1, spans["unfinished"]).astype(np.uint8)
    collected.doubts.append(Doubt(TOO_LONG_SPANS, int(too_long.sum()), len(too_long), longest))


def _doubt_ends(collected: CollectedEvents, kind: str, ends: Int64, plausible: _TimeRange) -> None:
    """Add a doubt about work that ends a thousand durations after all others; only waits may."""
    limit = plausible.high + max(_FAR * (plausible.high - plausible.low), _MAX_LATE_END_NS)
    late = ends[ends > limit]
    if len(ends) > _FEWEST:
        excess_ns = int(late.max(initial=limit)) - plausible.high
        collected.doubts.append(
            Doubt(f"{kind} end long after all others", len(late), len(ends), excess_ns)
        )


def _cut_work(collected: CollectedEvents) -> None:
    """Cut durations on CUDA streams, whose work is sequential except for branches of graphs."""
    gpu = collected.gpu
    if not (gpu["duration_ns"] > _MAX_EXCESS_NS).any():
        return
    ordered = (gpu["kind"] <= GpuKind.SET) & (gpu["device_type"] == DeviceType.CUDA)
    rows = np.flatnonzero(ordered & (gpu["graph_node"] == 0) & (gpu["graph"] == 0))
    stream_key = ("start_ns", "stream", "device_index", "process")
    rows = rows[np.lexsort([gpu[name][rows] for name in stream_key])]
    if len(rows) < 2:
        return
    start, duration = gpu["start_ns"][rows], gpu["duration_ns"][rows]
    same = np.ones(len(rows) - 1, dtype=np.bool_)
    for name in stream_key[1:]:
        same &= gpu[name][rows][1:] == gpu[name][rows][:-1]
    allowed, length = np.diff(start), duration[:-1]
    too_long = same & (allowed > 0) & (length > _MAX_LENGTH_FACTOR * allowed)
    too_long &= (length - allowed > _MAX_EXCESS_NS) & (length > allowed + duration[1:])
    cut = np.flatnonzero(too_long)
    if len(cut):
        longest = int((length - allowed)[cut].max())
        gpu["duration_ns"] = gpu["duration_ns"].copy()
        gpu["duration_ns"][rows[cut]] = allowed[cut]
        collected.doubts.append(Doubt(TOO_LONG_WORK, len(cut), len(rows), longest))


def overrun_doubts(events: dict[str, Any]) -> list[Doubt]:
    """Doubts about calls that end after their caller by more than the clock's error.

    An operator, Python call or runtime call ends before its caller, so one of two times is wrong.
    """
    kinds = (EventKind.OPERATOR, EventKind.PYTHON_CALL, EventKind.RUNTIME_CALL)
    is_call = np.isin(events["kind"], kinds)
    rows = np.flatnonzero(is_call & (events["overlap_ns"] > _CLOCK_ERROR_NS))
    nested = (events["thread"], events["start_ns"], events["end_ns"], events["parent"])
    around = enclosing(nested, events["thread"][rows], events["start_ns"][rows] - 1)
    rows, around = rows[around >= 0], around[around >= 0]
    excess_ns = events["end_ns"][rows] - events["end_ns"][around]
    late = np.minimum(excess_ns, events["overlap_ns"][rows])[excess_ns > _CLOCK_ERROR_NS]
    if not len(late) or late.sum() < _MIN_OVERRUN_SHARE * np.ptp(events["start_ns"]):
        return []
    return [Doubt(OVERRUN, len(late), int(is_call.sum()), int(late.max()))]
