"""The time of threads in pieces, each of one step, one thread and one cause at first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause
from opscope.analysis.account.event_causes import AS_AROUND, causes_of_events
from opscope.trace.codes import EventKind
from opscope.trace.trace import Trace
from opscope.tree.frame_text import python_events
from opscope.tree.innermost import Segments, innermost_segments
from opscope.tree.steps import Steps

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

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
    trace: Trace, steps: Steps, bounds: tuple[int, int], cuts: dict[int, Values]
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
    is_main = _main_threads(trace, segments)[segments.thread]
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


def _main_threads(trace: Trace, segments: Segments) -> Flags:
    """Those that run the program: the one with most operators, and those with calls of Python."""
    events, threads = trace.events, trace.table("threads")
    result = np.zeros(max(len(segments.threads), 1), dtype=np.bool_)
    if not len(events):
        return result
    rows = np.zeros(len(events), dtype=np.int64)
    if len(threads):
        rows = segments.rows_of(threads["system_thread_id"])[events["thread"]]
    has_row = rows >= 0
    if not has_row.any():
        return result
    is_operator = events["kind"] == EventKind.OPERATOR
    forward = is_operator & (events["forward_thread"] == 0)
    is_operator, forward = is_operator & has_row, forward & has_row
    counted = next((one for one in (forward, is_operator) if one.any()), has_row)
    result[int(np.argmax(np.bincount(rows[counted])))] = True
    result[np.flatnonzero(np.bincount(rows[python_events(trace) & has_row]))] = True
    return result


def step_of(start_ns: Values, steps: Steps) -> Values:
    """Row of the step that each moment is in, ``OUTSIDE_STEPS`` for none."""
    if not len(steps):
        return np.full(len(start_ns), OUTSIDE_STEPS, dtype=np.int64)
    row = np.searchsorted(steps.start_ns, start_ns, side="right") - 1
    inside = (row >= 0) & (start_ns < steps.end_ns[np.maximum(row, 0)])
    return np.where(inside, row, OUTSIDE_STEPS)


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
