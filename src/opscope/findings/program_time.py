"""Times of a recording without profiling overhead and without waits for a CPU.

A clock shows how long the program alone has run. Between two starts or ends of spans, it advances
by the elapsed time, less the cost of recording these spans and the main thread's waits for a CPU.
Order and nesting of events do not change. Patterns use only these times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.processor import Intervals, sampled_threads
from opscope.analysis.recording_cost import costs_of_events_ns
from opscope.base.quantity_text import share_text
from opscope.columns.codes import EventKind
from opscope.columns.ledger import COMPUTED, PROCESSOR, WAITED
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.period import wall_bounds
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.frame_text import python_events

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_MOST_WAITED = 0.98
_SHORTEST_WAIT_NS, _LEFT_NS = 200_000, 20_000
_MOST_SWITCHING_NS = 10_000_000  # longest time to open or close a recording
BUSY = 0.2  # share of time waiting for a CPU on a busy machine; less is noise
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
    """Share of the time that the main thread waited for a CPU; None: not recorded."""
    start_ns, end_ns = wall_bounds(trace)
    sampled = sampled_threads(trace).get(main_thread(trace))
    if sampled is not None:
        within = sampled.share_within(start_ns, end_ns)
        known_ns = float((sampled.length_ns * within).sum())
        if known_ns >= _ENOUGH_KNOWN * (end_ns - start_ns):
            delayed_ns = float((sampled.delayed_ns * within).sum())
            return min(delayed_ns / max(known_ns, 1.0), _MOST_WAITED)
    return _counted_share(trace)


def main_thread(trace: TraceData) -> int:
    """System id of the main thread; -1: not known."""
    numbers, row = trace.table("threads")["system_thread_id"], main_row(trace)
    return int(numbers[row]) if row < len(numbers) else -1


@derived
def main_row(trace: TraceData) -> int:
    """Row in ``threads`` of the thread with most operators; without any, with most events."""
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    counted = trace.events["thread"][is_operator if is_operator.any() else slice(None)]
    return int(np.argmax(np.bincount(counted))) if len(counted) else 0


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
        moments = np.concatenate([start, end, wall_bounds(trace), *cuts])
        moments = np.sort(moments, kind="stable")
        moments = moments[np.append(True, np.diff(moments) > 0)]
        lengths = np.diff(moments).astype(np.float64)
        for begin, until in _switching(trace, start, end):
            inside = (moments[:-1] >= begin) & (moments[1:] <= until)
            lengths[inside] *= 1 - min(_MOST_SWITCHING_NS / (until - begin), 1.0)
        if samples is not None:
            lengths -= _waits(moments, lengths, samples)
        elif waited:
            lengths *= 1 - waited
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


def _waits(moments: Values, lengths: Amounts, samples: Intervals) -> Amounts:
    """Time that the main thread waited for a CPU in each stretch between two moments.

    A descheduled thread waits for milliseconds. So the waits that the kernel counted between two
    samples go to the longest stretches first, and the rest to all.
    """
    interval = np.searchsorted(samples.start_ns, moments[:-1], "right") - 1
    known = (interval >= 0) & (moments[:-1] < samples.end_ns)
    interval = np.where(known, interval, len(samples.delayed_ns))
    delayed = np.append(samples.delayed_ns, 0).astype(np.float64)
    waits, count = np.zeros(len(lengths)), len(delayed)
    long = np.flatnonzero(lengths > _SHORTEST_WAIT_NS)
    long = long[np.lexsort((-lengths[long], interval[long]))]
    of, room = interval[long], lengths[long] - _LEFT_NS
    earlier = np.cumsum(np.append(0, np.bincount(of, room, count)))[of]
    waits[long] = np.clip(delayed[of] - (np.cumsum(room) - room - earlier), 0, room)
    left = lengths - waits
    rest = np.maximum(delayed - np.bincount(interval, waits, count), 0)
    share = rest / np.maximum(np.bincount(interval, left, count), 1)
    return np.asarray(waits + left * np.minimum(share, _MOST_WAITED)[interval])


def _spans(clock: _Clock, table: Table) -> Table:
    start = clock.at(table["start_ns"])
    took = clock.at(table["start_ns"] + np.maximum(table["duration_ns"], 0)) - start
    took = np.where(table["duration_ns"] < 0, table["duration_ns"], took)
    return table.replaced({"start_ns": start, "duration_ns": took})


def _counted_share(trace: TraceData) -> float | None:
    """Share of waits for a CPU, by kernel counters of the thread that opened the recording."""
    counted = trace.ledger.get(PROCESSOR, {})
    waited, computed = (counted.get(what) for what in (WAITED, COMPUTED))
    if waited is None or computed is None or waited + computed <= 0:
        return None
    start_ns, end_ns = trace.metadata.get("start_ns"), trace.metadata.get("end_ns")
    # A thread that sleeps neither computes nor waits for a CPU.
    lasted = end_ns - start_ns if start_ns is not None and end_ns is not None else 0
    return min(waited / max(lasted, waited + computed), _MOST_WAITED)
