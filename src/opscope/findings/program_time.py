"""Times of a recording without profiling overhead and without waits for a CPU.

A clock shows how long the program alone has run. Between two starts or ends of spans, it advances
by the elapsed time, less the cost of recording these spans, the main thread's waits for a CPU, and
its waits for other processes while these waited for a CPU. Order and nesting of events do not
change. Patterns use only these times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.divided import main_row
from opscope.analysis.account.process_waits import ProcessWaits, process_waits
from opscope.analysis.account.processor import Intervals, sampled_threads
from opscope.analysis.recording_cost import costs_of_events_ns
from opscope.base.quantity_text import share_text
from opscope.columns.row_groups import group_rows
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.period import wall_bounds
from opscope.timeline.signatures import medians, mix, shape_signatures
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.frame_text import python_events

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_MOST_WAITED = 0.98
_SHORTEST_WAIT_NS, _LEFT_NS = 200_000, 20_000
_MOST_SWITCHING_NS = 10_000_000  # longest time to open or close a recording
_FEWEST = 3  # stretches that have a usual length
BUSY, _SOME = 0.2, 0.02
"""Shares of time waiting for a CPU: on a busy machine, less is noise; worth a closer look."""
_ENOUGH_KNOWN = 0.5  # share of the time that samples of the main thread have to cover to be used


def program_time(trace: TraceData) -> TraceData:
    """Trace with the program's own times; unchanged if overhead and waits are unknown."""
    clock = _Clock.of(trace)
    if clock is None:
        return trace
    events, gpu = (_spans(clock, trace.table(name)) for name in ("events", "gpu"))
    allocations = trace.table("allocations")
    if len(allocations):
        allocations = allocations.replaced({"time_ns": clock.at(allocations["time_ns"])})
    return trace.with_tables({"events": events, "gpu": gpu, "allocations": allocations})


def busy_text(waited: float | None) -> str:
    """Sentence about a busy machine, if ``waited`` is more than noise; else empty."""
    if waited is None or waited < BUSY:
        return ""
    share = share_text(waited)
    return f"the machine was busy: {share} of the time the program waited for a CPU"


def waited_share(trace: TraceData) -> float | None:
    """Share of the time that the main thread waited for a CPU, or for a process without one; None:
    not recorded."""
    start_ns, end_ns = wall_bounds(trace)
    sampled = sampled_threads(trace).get(main_thread(trace))
    if sampled is not None:
        within = sampled.share_within(start_ns, end_ns)
        known_ns = float((sampled.length_ns * within).sum())
        if known_ns >= _ENOUGH_KNOWN * (end_ns - start_ns):
            delayed_ns = float((sampled.delayed_ns * within).sum())
            delayed_ns += float(process_waits(trace).others_ns.sum())
            return min(delayed_ns / max(known_ns, 1.0), _MOST_WAITED)
    return None


def computed_ns(trace: TraceData) -> dict[int, int]:
    """CPU time by system id of each sampled thread; other processes have negative ids."""
    samples = trace.table("thread_samples")
    numbers = np.unique(samples["system_thread_id"]).tolist()
    return {
        one: int(np.ptp(samples["computed_ns"][samples["system_thread_id"] == one]))
        for one in numbers
    }


def main_thread(trace: TraceData) -> int:
    """System id of the main thread; -1: not known."""
    numbers, row = trace.table("threads")["system_thread_id"], main_row(trace)
    return int(numbers[row]) if row < len(numbers) else -1


class _Clock:
    """Advances evenly by ``lengths`` between consecutive ``moments`` (Unix nanoseconds)."""

    def __init__(self, moments: Values, lengths: Amounts) -> None:
        self._first = int(moments[0])
        self._passed_ns = moments - self._first
        self._shown_ns = np.concatenate([[0.0], np.cumsum(lengths)])

    @classmethod
    def of(cls, trace: TraceData) -> _Clock | None:
        costs, waited = costs_of_events_ns(trace), waited_share(trace)
        if not len(trace.events) or (costs is None and not waited):
            return None
        start = trace.events["start_ns"]
        end = start + event_tree(trace).duration_ns
        samples = sampled_threads(trace).get(main_thread(trace))
        cuts = [] if samples is None else [samples.start_ns, [samples.end_ns]]
        others = process_waits(trace)
        cuts += [others.start_ns, others.end_ns]
        moments = np.concatenate([start, end, wall_bounds(trace), *cuts])
        moments = np.sort(moments, kind="stable")
        moments = moments[np.append(True, np.diff(moments) > 0)]
        lengths = np.diff(moments).astype(np.float64)
        for begin, until in _switching(trace, start, end):
            inside = (moments[:-1] >= begin) & (moments[1:] <= until)
            lengths[inside] *= 1 - min(_MOST_SWITCHING_NS / (until - begin), 1.0)
        if samples is not None:
            usual = np.zeros(len(lengths))
            if (waited or 0.0) >= _SOME:
                usual = _usual_ns(trace, moments, (start, end))
            lengths = _without_waits(moments, lengths, usual, samples, others)
        if costs is not None:
            # The recorder reads the clock last at a span's start, and first at its end.
            half = costs / 2
            count = len(moments)
            before = np.bincount(np.searchsorted(moments, start), half, count)[1:]
            after = np.bincount(np.searchsorted(moments, end), half, count)[:-1]
            lengths = np.maximum(lengths - before - after, 0.0)
        return cls(moments, lengths)

    def at(self, time_ns: Values) -> Values:
        """Times of this clock at some moments, Unix nanoseconds. Shape as ``time_ns``."""
        shown = np.interp(time_ns - self._first, self._passed_ns, self._shown_ns)
        return np.asarray(np.rint(shown), dtype=np.int64) + self._first


def _switching(trace: TraceData, start: Values, end: Values) -> list[tuple[int, int]]:
    """Intervals in which the first function opened and closed the recording."""
    first, last = int(start.min()), int(end.max())
    running = python_events(trace) & (start == first)
    if not running.any() or trace.metadata.get("start_ns") != first:
        return []
    changes = np.append(start, end)
    opened = (first, int(changes[changes > first].min(initial=last)))
    closed = (int(changes[changes < last].max(initial=first)), last)
    return [opened, closed] if trace.events["unfinished"][running].any() else [opened]


def _usual_ns(trace: TraceData, moments: Values, changes: tuple[Values, Values]) -> Amounts:
    """Median length of the stretches between the same two changes, such as the end of an operator
    and the start of another, on tensors of the same shapes; 0 for few. Shape (moments - 1,)."""
    calls = trace.table("python_calls")
    what = trace.events["name"].astype(np.int64)
    what[calls["event"]] = len(trace.names) + calls["frame"].astype(np.int64)
    what = (mix(what) ^ shape_signatures(trace)).view(np.int64)
    at, first = np.unique(np.concatenate(changes), return_index=True)
    change = np.concatenate([what, what + 1])[first]
    alike = group_rows(change[:-1], change[1:])
    usual = medians(np.diff(at), alike.group, len(alike)) * (alike.count >= _FEWEST)
    return np.append(usual[alike.group], 0)[np.searchsorted(at, moments[:-1], "right") - 1].astype(
        np.float64
    )


def _without_waits(
    moments: Values, lengths: Amounts, usual: Amounts, samples: Intervals, others: ProcessWaits
) -> Amounts:
    """Stretches between two moments without what the main thread waited for a CPU in each.

    Of waits for other processes, the part that counts is known. Elsewhere, a descheduled thread
    waits for milliseconds. So the waits that the kernel counted between two samples go to what is
    longest beyond its usual length, then to the longest stretches, and the rest to all.
    """
    interval = np.searchsorted(samples.start_ns, moments[:-1], "right") - 1
    known = (interval >= 0) & (moments[:-1] < samples.end_ns)
    interval = np.where(known, interval, len(samples.delayed_ns))
    delayed = np.append(samples.delayed_ns, 0).astype(np.float64)
    count = len(delayed)
    wait, took = others.at(moments[:-1]), np.maximum(others.end_ns - others.start_ns, 1)
    left_out, without_cpu = (
        np.where(wait >= 0, lengths * np.append(part / took, 0.0)[wait], 0.0)
        for part in (others.waited_ns - others.counted_ns, others.waited_ns - others.blocked_ns)
    )
    counted = np.where(wait >= 0, lengths - left_out, 0.0)
    delayed = np.maximum(delayed - np.bincount(interval, without_cpu, count), 0.0)
    left = np.where(wait >= 0, 0.0, lengths)
    long = np.flatnonzero(left > _SHORTEST_WAIT_NS)
    for least in (np.maximum(usual, _LEFT_NS), np.full_like(usual, _LEFT_NS)):
        room = np.maximum(left - least, 0.0)
        rows = long[np.lexsort((-room[long], interval[long]))]
        of, room = interval[rows], room[rows]
        earlier = np.cumsum(np.append(0, np.bincount(of, room, count)))[of]
        waits = np.clip(delayed[of] - (np.cumsum(room) - room - earlier), 0, room)
        left[rows] -= waits
        delayed = np.maximum(delayed - np.bincount(of, waits, count), 0.0)
    share = delayed / np.maximum(np.bincount(interval, left, count), 1)
    return np.asarray(counted + left * (1 - np.minimum(share, _MOST_WAITED)[interval]))


def _spans(clock: _Clock, table: Table) -> Table:
    start = clock.at(table["start_ns"])
    took = clock.at(table["start_ns"] + np.maximum(table["duration_ns"], 0)) - start
    took = np.where(table["duration_ns"] < 0, table["duration_ns"], took)
    return table.replaced({"start_ns": start, "duration_ns": took})
