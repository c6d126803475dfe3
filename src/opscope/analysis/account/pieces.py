"""The time of threads in pieces, each of one step, one thread and one cause at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.backward import threads_of_engine
from opscope.analysis.account.event_causes import AS_AROUND, causes_of_events
from opscope.columns.causes import Cause
from opscope.columns.row_groups import places_in
from opscope.columns.trace_data import TraceData
from opscope.timeline.steps import Steps
from opscope.timeline.tree.innermost import Segments, innermost_segments
from opscope.timeline.tree.line_nesting import Line

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.float64]

OUTSIDE_STEPS = -1

ALL_THREADS = -1

_SHORT_GAP_NS = 1_000_000
"""Between calls of torch without a pause like this there is no time for much but Python."""

_FEWEST_LEAVES = 50
_FASTEST_PERCENTILE = 5
_MOST_DISPATCH_NS = 5_000


@dataclass(frozen=True, eq=False)
class Pieces:
    """Arrays have shape (pieces,).

    Attributes:
        segments: where and how long each is, and what runs in it.
        step: row in the steps, ``OUTSIDE_STEPS`` for none.
        cause: before anything is known of the processor.
        is_gap: nothing that was recorded ran there, but perhaps annotations.
        is_main: on a thread that is asked for something all the time, where a gap is no rest.
        dispatch_ns: of the time of operators, what calling any takes.
    """

    segments: Segments
    step: Values
    cause: Values
    is_gap: Flags
    is_main: Flags
    dispatch_ns: Values

    @property
    def length_ns(self) -> Values:
        """How long each is."""
        return self.segments.length_ns


def pieces_of(
    trace: TraceData, steps: Steps, bounds: tuple[int, int], cuts: dict[int, Values]
) -> Pieces:
    """All time between two moments, on every thread.

    Args:
        trace: any.
        steps: pieces end where these begin and end.
        bounds: the first moment and the last, Unix nanoseconds.
        cuts: further moments at which pieces end, by number of the thread in the system;
            ``ALL_THREADS`` for those of every thread.
    """
    of_all = cuts.get(ALL_THREADS, np.zeros(0, dtype=np.int64))
    edges = np.unique(np.concatenate([steps.start_ns, steps.end_ns, of_all])).astype(np.int64)
    segments = innermost_segments(trace, *bounds, {**cuts, ALL_THREADS: edges})
    causes = causes_of_events(trace, segments.around)
    event = segments.event
    cause = np.where(event >= 0, causes[np.maximum(event, 0)] if len(causes) else 0, AS_AROUND)
    is_gap = cause == AS_AROUND
    is_main = main_threads(trace, segments.threads)[segments.thread]
    short = is_gap & (segments.length_ns < _SHORT_GAP_NS)
    known = np.where(is_main, np.where(short, Cause.PYTHON, Cause.UNKNOWN), Cause.IDLE)
    cause = np.where(is_gap, known, cause).astype(np.int64)
    return Pieces(
        segments,
        step_of(segments.start_ns, steps),
        cause,
        is_gap,
        is_main,
        _dispatch_ns(segments, causes),
    )


def main_threads(trace: TraceData, lines: Sequence[Line]) -> Flags:
    """Those that run the program: the one with most operators, and those with calls of Python.

    Args:
        trace: any.
        lines: of its threads.

    Returns:
        Shape (lines,), and for none one that is none.
    """
    result = np.zeros(max(len(lines), 1), dtype=np.bool_)
    all_of, counted, python = _counts(trace, lines)
    if all_of.any():
        result[int(np.argmax(counted if counted.any() else all_of))] = True
        result[python > 0] = True
    return result


def thread_of_operators(trace: TraceData, lines: Sequence[Line]) -> int:
    """The row of the thread that calls most operators, but for threads of autograd's engine; -1
    where none is called."""
    _, counted, _ = _counts(trace, lines)
    return int(np.argmax(counted)) if counted.any() else -1


def _counts(trace: TraceData, lines: Sequence[Line]) -> tuple[Amounts, Amounts, Amounts]:
    """Of each line its events, its operators (of a forward pass, if any is), its calls of Python.

    Shapes (lines,), and for none one that is none.
    """
    events, threads = trace.events, trace.table("threads")
    size = max(len(lines), 1)
    if not len(events):
        return np.zeros(size), np.zeros(size), np.zeros(size)
    row_of = {line.number: row for row, line in enumerate(lines)}
    numbers = threads["system_thread_id"].tolist() if len(threads) else [lines[0].number]
    rows = np.array([row_of.get(number, -1) for number in numbers], dtype=np.int64)
    thread = events["thread"] if len(threads) else np.zeros(len(events), dtype=np.int32)
    of_threads = _native.kinds_by_thread(
        np.ascontiguousarray(thread),
        np.ascontiguousarray(events["kind"]),
        np.ascontiguousarray(events["forward_thread"]),
        len(numbers),
    )
    all_of, operators, forward, python = (
        np.bincount(rows[rows >= 0], weights=one[rows >= 0], minlength=size).astype(np.float64)
        for one in of_threads
    )
    if len(threads):
        # Their operators are those of passes that another thread asked for.
        engine = rows[threads_of_engine(trace) & (rows >= 0)]
        if len(np.setdiff1d(np.flatnonzero(all_of), engine)):
            forward[engine] = operators[engine] = all_of[engine] = 0
    return all_of, forward if forward.any() else operators, python


def step_of(start_ns: Values, steps: Steps) -> Values:
    """Row of the step that each moment is in, ``OUTSIDE_STEPS`` for none."""
    if not len(steps):
        return np.full(len(start_ns), OUTSIDE_STEPS, dtype=np.int64)
    start, end, row = in_order_of_start(steps)
    place = places_in(start, start_ns, side="right") - 1
    inside = (place >= 0) & (start_ns < end[np.maximum(place, 0)])
    return np.where(inside, row[place], OUTSIDE_STEPS)


def in_order_of_start(steps: Steps) -> tuple[Values, Values, Values]:
    """When steps begin and end, and of each its row: those of several threads may be in another
    order. Shapes (steps,)."""
    order = np.argsort(steps.start_ns, kind="stable")
    return steps.start_ns[order], steps.end_ns[order], order


def _dispatch_ns(segments: Segments, causes: npt.NDArray[np.int8]) -> Values:
    """What calling an operator takes that computes next to nothing, once for each operator."""
    result = np.zeros(len(segments), dtype=np.int64)
    known = np.flatnonzero(segments.event >= 0)
    leaves = known[causes[segments.event[known]] == Cause.OPERATOR] if len(causes) else known
    if len(leaves) < _FEWEST_LEAVES:
        return result
    fastest = np.percentile(segments.length_ns[leaves], _FASTEST_PERCENTILE)
    result[leaves] = np.where(segments.is_first[leaves], min(int(fastest), _MOST_DISPATCH_NS), 0)
    return result
