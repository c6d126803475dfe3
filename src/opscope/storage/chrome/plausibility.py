"""Plausibility of times in a file: impossible ones are skipped or cut.

A writer may lose a time (0), or write one in another unit or of another clock. Beside its
neighbours such a number is seen: it is far from all others, or longer than its stream allows.
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
"""Rows are far from the others if their distance is this many times the duration of the others."""
_WAITS_NS = 10**9  # what computes and goes on for so long after all else
_LOST_NS = 10_000_000
_LOST = 10
"""The same for rows whose time and duration are both 0, which is what writers put for "unknown"."""
_FEW = 3  # so few rows say nothing about where the others should be
_TOO_LONG = 10
_TOO_LONG_NS = 1_000_000
"""Work is cut if it lasts this many times longer than until the next begins on its stream, and by
so much more: less is for the rules of devices to judge (``columns.device_rules``)."""

LEFT_OUT = "rows are ignored, because their times are 0 or far from all others"
FAR_AWAY = "rows are far from all others"
TOO_LONG_SPANS = "spans end long after all others, and are cut there"
TOO_LONG_WORK = "device activities overlap the next one of their stream, and are cut there"

OVERRUN = "calls end after their caller"
_OVERRUN_NS = 100_000  # a writer reads the clock of two calls a few microseconds late, not later ..
_WORTH_SAYING = 0.001  # ... and what comes to less of the recording than this changes no answer.
TOO_LARGE = "allocations are ignored, because their size is impossible"
_ADDRESSES_BYTES = 1 << 47


class _Believed(NamedTuple):
    low: int
    high: int
    farthest_ns: int
    doubted: int
    doubted_ns: int


def judge_times(collected: CollectedEvents) -> None:
    """Leave out rows with impossible times, cut impossible durations; says so in ``doubts``."""
    columns = _times(collected)
    total = sum(map(len, columns.values()))
    if not total:
        return
    lost_ns = _leave_out_lost(collected, columns)
    columns = _times(collected)
    believed = _believed(np.concatenate(list(columns.values())))
    for name, times in columns.items():
        keep = (times >= believed.low) & (times <= believed.high)
        if not keep.all():
            collected.keep(name, keep)
    left = total - sum(map(len, _times(collected).values()))
    farthest_ns = max(believed.farthest_ns, lost_ns)
    collected.doubts += [
        Doubt(LEFT_OUT, left, total, farthest_ns),
        Doubt(FAR_AWAY, believed.doubted, total, believed.doubted_ns),
    ]
    _leave_out_sizes(collected)
    _cut_spans(collected, believed)
    _cut_work(collected)
    gpu = collected.gpu
    ends = (gpu["start_ns"] + gpu["duration_ns"])[gpu["kind"] <= GpuKind.SET]
    _doubt_ends(collected, "device activities", ends, believed)


def _times(collected: CollectedEvents) -> dict[str, Int64]:
    return {
        "spans": collected.spans["start_ns"],
        "gpu": collected.gpu["start_ns"],
        "allocations": collected.allocations["time_ns"],
        "overheads": collected.overheads["start_ns"],
    }


def _leave_out_sizes(collected: CollectedEvents) -> None:
    sizes, action = (collected.allocations[name] for name in ("size_bytes", "action"))
    possible = (np.abs(sizes) < _ADDRESSES_BYTES) | (action == AllocationAction.OUT_OF_MEMORY)
    if not possible.all():
        collected.doubts.append(Doubt(TOO_LARGE, int((~possible).sum()), len(sizes)))
        collected.keep("allocations", possible)


def _leave_out_lost(collected: CollectedEvents, columns: dict[str, Int64]) -> int:
    """Leave out rows at 0 without duration if all others are far from 0; how far."""
    lost = {name: _is_lost(collected, name, times) for name, times in columns.items()}
    if not any(found.any() for found in lost.values()):
        return 0
    others = np.concatenate([times[~lost[name]] for name, times in columns.items()])
    if not len(others):
        return 0
    nearest = int(np.abs(others).min())
    if nearest < max(_LOST * int(others.max() - others.min()), _LOST_NS):
        return 0
    for name, found in lost.items():
        if found.any():
            collected.keep(name, ~found)
    return nearest


def _is_lost(collected: CollectedEvents, name: str, times: Int64) -> Flags:
    found: Flags = times == 0
    durations = getattr(collected, name).get("duration_ns")
    return found if durations is None else found & (durations == 0)


def _believed(times: Int64) -> _Believed:
    """The range in which most times are, without a large hole."""
    low, high = int(times.min(initial=0)), int(times.max(initial=0))
    low = int(times.min()) if len(times) else low
    whole = _Believed(low, high, 0, 0, 0)
    if high - low < _FAR_NS or len(times) <= _FEW or not _is_crowded(times, low, high):
        return whole
    times = np.sort(times)
    begin, end, farthest, doubted, doubted_ns = 0, len(times), 0, 0, 0
    while end - begin > _FEW:
        gaps = np.diff(times[begin:end])
        border = begin + int(np.argmax(gaps)) + 1
        gap = int(gaps[border - begin - 1])
        keeps_later = end - border >= border - begin
        first, last = (border, end) if keeps_later else (begin, border)
        if gap < max(_FAR * int(times[last - 1] - times[first]), _FAR_NS) or last - first < _FEW:
            break
        if gap >= _DAY_NS:
            farthest = max(farthest, gap)
            low, high = int(times[first]), int(times[last - 1])
        else:
            doubted, doubted_ns = doubted + end - begin - last + first, max(doubted_ns, gap)
        begin, end = first, last
    return _Believed(low, high, farthest, doubted, doubted_ns)


def _is_crowded(times: Int64, low: int, high: int) -> bool:
    """Most times are in a small part of the range, as beside a few outliers."""
    part = (times - low) // ((high - low) // (_FAR // 2) + 1)
    return bool(np.bincount(part).max() * 2 >= len(times))


def _cut_spans(collected: CollectedEvents, believed: _Believed) -> None:
    spans = collected.spans
    lasts = believed.high - believed.low
    end = spans["start_ns"] + spans["duration_ns"]
    too_long = end > believed.high + max(_FAR * lasts, _DAY_NS)
    _doubt_ends(
        collected, "operators", end[(spans["kind"] == EventKind.OPERATOR) & ~too_long], believed
    )
    if not too_long.any():
        return
    longest = int(spans["duration_ns"][too_long].max())
    spans["duration_ns"] = np.where(too_long, 0, spans["duration_ns"])
    spans["unfinished"] = np.where(too_long, 1, spans["unfinished"]).astype(np.uint8)
    collected.doubts.append(Doubt(TOO_LONG_SPANS, int(too_long.sum()), len(too_long), longest))


def _doubt_ends(collected: CollectedEvents, of: str, ends: Int64, believed: _Believed) -> None:
    """Doubt work that ends a thousand times later than all else took: only waits may."""
    limit = believed.high + max(_FAR * (believed.high - believed.low), _WAITS_NS)
    late = ends[ends > limit]
    if len(ends) > _FEW:
        by = int(late.max(initial=limit)) - believed.high
        collected.doubts.append(Doubt(f"{of} end long after all others", len(late), len(ends), by))


def _cut_work(collected: CollectedEvents) -> None:
    """Cut durations on CUDA streams, which do one thing at a time, but for branches of graphs."""
    gpu = collected.gpu
    if not (gpu["duration_ns"] > _TOO_LONG_NS).any():
        return
    ordered = (gpu["kind"] <= GpuKind.SET) & (gpu["device_type"] == DeviceType.CUDA)
    rows = np.flatnonzero(ordered & (gpu["graph_node"] == 0) & (gpu["graph"] == 0))
    place = ("start_ns", "stream", "device_index", "process")
    rows = rows[np.lexsort([gpu[name][rows] for name in place])]
    if len(rows) < 2:
        return
    start, duration = gpu["start_ns"][rows], gpu["duration_ns"][rows]
    same = np.ones(len(rows) - 1, dtype=np.bool_)
    for name in place[1:]:
        same &= gpu[name][rows][1:] == gpu[name][rows][:-1]
    allowed, lasts = np.diff(start), duration[:-1]
    too_long = same & (allowed > 0) & (lasts > _TOO_LONG * allowed)
    too_long &= (lasts - allowed > _TOO_LONG_NS) & (lasts > allowed + duration[1:])
    found = np.flatnonzero(too_long)
    if len(found):
        longest = int((lasts - allowed)[found].max())
        gpu["duration_ns"] = gpu["duration_ns"].copy()
        gpu["duration_ns"][rows[found]] = allowed[found]
        collected.doubts.append(Doubt(TOO_LONG_WORK, len(found), len(rows), longest))


def overrun_doubts(events: dict[str, Any]) -> list[Doubt]:
    """Calls that end after what they were called in, by more than clocks are read late.

    Threads do one thing after another: an operator, a Python call or a call of a runtime ends
    before what it is in, so of one of the two a time is wrong.
    """
    kinds = (EventKind.OPERATOR, EventKind.PYTHON_CALL, EventKind.RUNTIME_CALL)
    is_call = np.isin(events["kind"], kinds)
    rows = np.flatnonzero(is_call & (events["overlap_ns"] > _OVERRUN_NS))
    nested = (events["thread"], events["start_ns"], events["end_ns"], events["parent"])
    around = enclosing(nested, events["thread"][rows], events["start_ns"][rows] - 1)
    rows, around = rows[around >= 0], around[around >= 0]
    by = events["end_ns"][rows] - events["end_ns"][around]
    late = np.minimum(by, events["overlap_ns"][rows])[by > _OVERRUN_NS]
    if not len(late) or late.sum() < _WORTH_SAYING * np.ptp(events["start_ns"]):
        return []
    return [Doubt(OVERRUN, len(late), int(is_call.sum()), int(late.max()))]
