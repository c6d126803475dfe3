"""The time of threads divided into causes, natively and without a row for each of its pieces.

A trace of a million events has two million pieces of time. They are made, looked at and added up
one after the other; kept are sums by step and cause, and of the main thread those pieces that are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.backward import passes_of_engine
from opscope.analysis.account.collectives import transfers
from opscope.analysis.account.pieces import thread_of_operators, time_of_threads
from opscope.analysis.account.processor import Intervals, intervals_by_thread
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.cached_property import cached_property
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData, derive
from opscope.timeline.period import Period
from opscope.timeline.program_steps import program_steps
from opscope.timeline.steps import Steps
from opscope.timeline.tree.line_nesting import Line, line_nesting

Values = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Divided:
    """The threads of a part of a trace, with what is needed to divide their time.

    Attributes:
        steps: of the program.
        steps_are: what they are where nothing marks them; else empty.
        bounds: the first moment and the last, Unix nanoseconds.
        threads: one line per thread of the system.
        is_sampled: whether the kernel was asked about any thread.
    """

    steps: Steps
    steps_are: str
    bounds: tuple[int, int]
    threads: tuple[Line, ...]
    is_sampled: bool
    _calls_most: int
    _time: _native.TimeOfThreads

    @property
    def sums(self) -> list[tuple[Values, Values]]:
        """Of each thread the nanoseconds by step and cause, outside of all steps first, and how
        many of these may be of another cause. Shapes ((steps + 1) * causes,)."""
        return [(time, error) for time, error, _ in self._sums]

    @property
    def main(self) -> int:
        """The thread that calls most operators; where none does, the one that most was seen to run
        on."""
        if self._calls_most >= 0:
            return self._calls_most
        busy = [busy_ns for _, _, busy_ns in self._sums]
        return busy.index(max(busy)) if busy else 0

    def pieces_of_main(self, causes: Iterable[Cause]) -> tuple[Values, ...]:
        """Columns of the pieces of the main thread's time that went to some causes: step, event,
        cause, nanoseconds, start and end. Shapes (pieces,)."""
        if not self.threads:
            return tuple(np.zeros((6, 0), dtype=np.int64))
        shares = self._time.pieces(self.main, [int(cause) for cause in causes])
        return tuple(np.concatenate(column) for column in zip(*shares, strict=True))

    def time_of_main(self, group: npt.NDArray[np.int32], groups: int) -> Values:
        """Nanoseconds of the main thread in its steps, by the number that the innermost span has
        in ``group`` and by cause; of no span last. Shape (groups + 1, causes)."""
        if not self.threads:
            return np.zeros((groups + 1, len(Cause)), dtype=np.int64)
        sums = self._time.sums_of_groups(self.main, group, groups)
        return sums.reshape(groups + 1, len(Cause))

    @cached_property
    def _sums(self) -> list[tuple[Values, Values, int]]:
        return self._time.sums()


def divide(whole: TraceData, period: Period) -> Divided:
    """The threads of a period of a trace; the same object for the same period.

    Args:
        whole: the trace, whose samples of threads tell of the part, too.
        period: of it.
    """
    return derive(period.trace, Divided, lambda: _divide(whole, period))


def _divide(whole: TraceData, period: Period) -> Divided:
    trace = period.trace
    steps, steps_are = program_steps(trace)
    wall_ns = period.wall_ns if len(trace.events) or len(trace.table("gpu")) else 0
    bounds = (period.start_ns, period.start_ns + wall_ns)
    stretches = transfers(trace)
    samples = dict(intervals_by_thread(whole, stretches))
    threads = tuple(line_nesting(trace).threads)
    passes = passes_of_engine(trace)
    edges = [steps.start_ns, steps.end_ns, stretches.ravel(), passes.ravel()]
    cuts = [
        (_cuts(edges, samples.get(line.number)), _columns(samples.get(line.number)))
        for line in threads
    ]
    cost_ns = round((cost_of_an_event_ns(trace) or 0.0) / 2)
    time = time_of_threads(trace, steps, bounds, cuts, stretches, passes, cost_ns)
    most = thread_of_operators(trace, threads)
    return Divided(steps, steps_are, bounds, threads, bool(samples), most, time)


def _cuts(edges: list[Values], intervals: Intervals | None) -> Values:
    """When pieces of a thread end, in order."""
    ends = [] if intervals is None else [intervals.start_ns, np.array([intervals.end_ns])]
    return np.sort(np.concatenate([*edges, *ends]).astype(np.int64), kind="stable")


def _columns(intervals: Intervals | None) -> _native.IntervalColumns | None:
    """What samples of a thread say, as native code takes it."""
    if intervals is None:
        return None
    start, delayed, blocked, faults, during, beside = (
        np.ascontiguousarray(getattr(intervals, name), dtype=np.int64)
        for name in (
            "start_ns", "delayed_ns", "blocked_ns", "faults_ns", "waits_for", "waits_for_beside",
        )
    )  # fmt: skip
    seen, seen_beside = (
        np.ascontiguousarray(one) for one in (intervals.is_seen, intervals.is_seen_beside)
    )
    return start, intervals.end_ns, delayed, blocked, faults, during, seen, beside, seen_beside
