"""Time of threads in pieces, each of one step, one thread and initially one cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.analysis.account.helper_threads import threads_of_engine
from opscope.analysis.requests import rows_of_requests
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.steps import Steps
from opscope.timeline.tree.frame_text import PYTHON_KINDS, event_texts
from opscope.timeline.tree.line_nesting import Line, line_nesting
from opscope.timeline.waits import cause_of_name, is_idle

Around = npt.NDArray[np.signedinteger[Any]]
Causes = npt.NDArray[np.int8]

AS_AROUND = -1  # the own time of an annotation or step has the cause of the span around it


def causes_of_events(trace: TraceData, around: Around) -> Causes:
    """Cause of the own time of every event, ``AS_AROUND`` if it has none of its own.

    ``around``: the span directly around each event by time, -1 for none.
    """
    label, texts = event_texts(trace)
    events, names = trace.events, trace.names
    # A waiting event loop is idle.
    has_loop = len(trace.table("task_runs")) > 0
    found = [Cause.IDLE if has_loop and is_idle(text) else _of_name(text) for text in texts]
    by_label = np.array([*found, AS_AROUND], dtype=np.int8)
    is_engine = [text.startswith("autograd::engine::") for text in names]
    kind, scope, name = (np.ascontiguousarray(events[one]) for one in ("kind", "scope", "name"))
    return _native.causes_of_events(
        kind,
        scope,
        name,
        label,
        np.ascontiguousarray(around, dtype=np.int32),
        by_label,
        np.array([*is_engine, False]),
    )


def _of_name(text: str) -> int:
    cause = cause_of_name(text).cause
    return AS_AROUND if cause is None else cause


_NONE = np.zeros(0, dtype=np.int64)
_KINDS = 256


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time, by thread in order of start; together they cover each thread.

    Arrays have shape (pieces,) unless noted.
    """

    threads: tuple[Line, ...]  # one line per thread of the system
    around: Values  # span around each event by time, or async parent; -1: none. Shape (events,)
    thread: Values  # row in ``threads``
    start_ns: Values  # Unix nanoseconds
    length_ns: Values  # above 0
    event: Values  # innermost span, row in ``events``; -1 without one
    cause: Values  # cause without kernel counters
    is_gap: Flags  # no recorded event ran, except annotations

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Values:
        """End of each, Unix nanoseconds."""
        return self.start_ns + self.length_ns


def pieces_of(
    trace: TraceData, steps: Steps, bounds: tuple[int, int], cuts: Values = _NONE
) -> Pieces:
    """All time between two moments (Unix nanoseconds), on every thread.

    Pieces end at begins and ends of steps, and at ``cuts``.
    """
    edges = np.sort(np.concatenate([steps.start_ns, steps.end_ns, cuts])).astype(np.int64)
    # Calls of the engine keep their cause on any thread.
    passes = np.array(bounds, dtype=np.int64)
    parts = time_of_threads(trace, steps, bounds, repeat((edges, None)), _NONE, passes).cut()
    nested = line_nesting(trace)
    thread = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    start, length, event, cause, is_gap = map(np.concatenate, zip(*parts, strict=True))
    around = nested.around.astype(np.int64)
    return Pieces(
        tuple(nested.threads), around, thread, start, length, event, cause, is_gap.astype(np.bool_)
    )


def time_of_threads(
    trace: TraceData,
    steps: Steps,
    bounds: tuple[int, int],
    cuts: Iterable[tuple[Values, _native.IntervalColumns | None]],
    transfers: Values,
    passes: Values,
    cost_ns: int = 0,
) -> _native.TimeOfThreads:
    """All time between two moments (Unix nanoseconds), on every thread, as a native object.

    Args:
        cuts: for each thread the ends of its pieces, in order, and its samples.
        transfers: begin and end of each transfer between ranks, in order.
        passes: begin and end of each backward pass on a thread of its own, in order.
        cost_ns: cost of recording the begin or the end of a span.
    """
    nested = line_nesting(trace)
    is_main = main_threads(trace).tolist()
    return _native.TimeOfThreads(
        nested.start_ns,
        nested.took_ns,
        nested.parent,
        causes_of_events(trace, nested.around),
        [
            (rows, moments, samples, asked)
            for rows, (moments, samples), asked in zip(nested.rows, cuts, is_main, strict=False)
        ],
        (np.ascontiguousarray(steps.start_ns), np.ascontiguousarray(steps.end_ns)),
        np.ascontiguousarray(transfers),
        np.ascontiguousarray(passes),
        int(bounds[0]),
        int(bounds[1]),
        cost_ns,
    )


def main_threads(trace: TraceData) -> Flags:
    """Threads that run the program: the one with most operators, and those with Python calls.

    Shape (threads of the system,).
    """
    all_of, counted, python = _counts(trace)
    result: Flags = python > 0
    if all_of.any():
        result[np.argmax(counted if counted.any() else all_of)] = True
    return result


def thread_of_program(trace: TraceData) -> int:
    """Row of the program's thread: it handles most marked requests, or else calls most operators.

    Requests come first because a server's operators may run on pool threads. Autograd's engine does
    not count. -1 for none.
    """
    _, counted, _ = _counts(trace)
    if len(requests := rows_of_requests(trace)):
        return int(np.argmax(np.bincount(line_nesting(trace).thread[requests])))
    return int(np.argmax(counted)) if counted.any() else -1


def _counts(trace: TraceData) -> tuple[Values, Values, Values]:
    """Events, operators (forward, if any) and Python calls of each thread of the system."""
    events, nested = trace.events, line_nesting(trace)
    size, thread = len(nested.threads), nested.thread.astype(np.int64)
    kinds = np.bincount(thread * _KINDS + events["kind"], minlength=size * _KINDS)
    kinds = kinds.reshape(size, _KINDS)
    is_forward = (events["kind"] == EventKind.OPERATOR) & (events["forward_thread"] == 0)
    forward = np.bincount(thread[is_forward], minlength=size)
    all_of, operators = kinds.sum(axis=1), kinds[:, EventKind.OPERATOR].copy()
    if (of_engine := threads_of_engine(trace)).any():
        # Their operators belong to passes that another thread requested.
        engine = np.unique(thread[of_engine[events["thread"]]])
        if len(np.setdiff1d(np.flatnonzero(all_of), engine)):
            forward[engine] = operators[engine] = all_of[engine] = 0
    python = kinds[:, list(PYTHON_KINDS)].sum(axis=1)
    return all_of, forward if forward.any() else operators, python
