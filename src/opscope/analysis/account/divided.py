"""Threads of a part of a trace, and the time of the main thread by cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import opscope._native as _native
from opscope.analysis.account.account import MainTime
from opscope.analysis.account.helper_threads import passes_of_engine, transfers
from opscope.analysis.account.pieces import thread_of_program, time_of_threads
from opscope.analysis.account.processor import Intervals, intervals_by_thread
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.cached_property import cached_property
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData, derive, derived
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.period import Period, Which, detailed_period_of, period_of
from opscope.timeline.steps import Steps, program_steps
from opscope.timeline.tree.line_nesting import Line, line_nesting


@derived
def main_row(trace: TraceData) -> int:
    """Row in ``threads`` of the thread with most operators; without any, with most events."""
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    counted = trace.events["thread"][is_operator if is_operator.any() else slice(None)]
    return int(np.argmax(np.bincount(counted))) if len(counted) else 0


@dataclass(frozen=True, eq=False)
class Divided:
    """Threads of a part of a trace, with the data to divide their time."""

    steps: Steps  # steps of the program
    steps_are: str  # what delimits them; empty if the program marks them
    bounds: tuple[int, int]  # first and last moment, Unix nanoseconds
    threads: tuple[Line, ...]  # one line per thread of the system
    is_sampled: bool  # whether kernel counters of any thread were recorded
    _calls_most: int
    _time: _native.TimeOfThreads

    @property
    def sums(self) -> list[tuple[Values, Values]]:
        """Nanoseconds of each thread by step (first: outside steps) and cause, and their errors.

        Shapes ((steps + 1) * causes,).
        """
        return [(time, error) for time, error, _ in self._sums]

    @property
    def main(self) -> int:
        """Row of the thread with most requests or operators; else of the longest busy thread."""
        if self._calls_most >= 0:
            return self._calls_most
        busy = [busy_ns for _, _, busy_ns in self._sums]
        return busy.index(max(busy)) if busy else 0

    def pieces_of_main(self, causes: Iterable[Cause]) -> tuple[Values, ...]:
        """Columns of the main thread's pieces with some causes. Shapes (pieces,).

        Step, event, cause, nanoseconds, start and end.
        """
        if not self.threads:
            return tuple(np.zeros((6, 0), dtype=np.int64))
        shares = self._time.pieces(self.main, [int(cause) for cause in causes])
        return tuple(np.concatenate(column) for column in zip(*shares, strict=True))

    def time_of_main(self, group: Rows, groups: int) -> Values:
        """Nanoseconds of the main thread in steps. Shape (groups + 1, causes).

        By ``group`` of the innermost span; the last row is time without a span.
        """
        if not self.threads:
            return np.zeros((groups + 1, len(Cause)), dtype=np.int64)
        sums = self._time.sums_of_groups(self.main, group, groups)
        return sums.reshape(groups + 1, len(Cause))

    @cached_property
    def _sums(self) -> list[tuple[Values, Values, int]]:
        return self._time.sums()


def divide(recording: TraceData, period: Period) -> Divided:
    """Divide the time of a period of ``recording``, which has the samples of threads; cached."""
    return derive(period.trace, Divided, lambda: _divide(recording, period))


def _divide(recording: TraceData, period: Period) -> Divided:
    trace = period.trace
    steps, steps_are = program_steps(trace)
    wall_ns = period.wall_ns if len(trace.events) or len(trace.table("gpu")) else 0
    bounds = (period.start_ns, period.start_ns + wall_ns)
    stretches = transfers(trace)
    samples = dict(intervals_by_thread(recording, stretches))
    threads = tuple(line_nesting(trace).threads)
    passes = passes_of_engine(trace)
    edges = [steps.start_ns, steps.end_ns, stretches.edges_ns, passes.edges_ns]
    cuts = [
        (_cuts(edges, samples.get(line.number)), _columns(samples.get(line.number)))
        for line in threads
    ]
    cost_ns = round((cost_of_an_event_ns(trace) or 0.0) / 2)
    time = time_of_threads(trace, steps, bounds, cuts, stretches.edges_ns, passes.edges_ns, cost_ns)
    most = thread_of_program(trace)
    return Divided(steps, steps_are, bounds, threads, bool(samples), most, time)


def _cuts(edges: list[Values], intervals: Intervals | None) -> Values:
    """Ends of pieces of a thread, in order."""
    ends = [] if intervals is None else [intervals.start_ns, np.array([intervals.end_ns])]
    return np.sort(np.concatenate([*edges, *ends]).astype(np.int64), kind="stable")


def _columns(intervals: Intervals | None) -> _native.IntervalColumns | None:
    """Samples of a thread as columns for native code."""
    if intervals is None:
        return None
    start, delayed, blocked, faults, waits, waits_beside = (
        np.ascontiguousarray(getattr(intervals, name), dtype=np.int64)
        for name in (
            "start_ns", "delayed_ns", "blocked_ns", "faults_ns", "waits_for", "waits_for_beside",
        )
    )  # fmt: skip
    seen, seen_beside = (
        np.ascontiguousarray(one) for one in (intervals.is_seen, intervals.is_seen_beside)
    )
    return start, intervals.end_ns, delayed, blocked, faults, waits, seen, waits_beside, seen_beside


def main_time(
    trace: TraceData, which: Which | str = Which.ALL, causes: Iterable[Cause] = tuple(Cause)
) -> MainTime:
    """Pieces of the main thread's time with some causes."""
    period = detailed_period_of(trace, which)
    return MainTime(*divide(trace, period).pieces_of_main(causes))


def time_of_groups(trace: TraceData, group: Rows, groups: int) -> Values:
    """Time of the main thread in steps, by the group of the innermost event and by cause.

    ``group`` has a number from 0 for every event. Nanoseconds, shape (groups + 1, causes); the last
    row is time without a span.
    """
    return divide(trace, period_of(trace, Which.ALL)).time_of_main(group, groups)
