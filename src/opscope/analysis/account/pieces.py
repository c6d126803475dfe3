"""Time of threads in pieces, each of one step, one thread and initially one cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from opscope.timeline.arrays import Amounts, Flags, Values
from opscope.timeline.steps import Steps
from opscope.timeline.tree.frame_text import event_texts
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
_PYTHON = [
    EventKind.PYTHON_CALL,
    EventKind.C_CALL,
    EventKind.MODULE_CALL,
    EventKind.OPTIMIZER_CALL,
]


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

    def rows_of(self, numbers: Values) -> Values:
        """Row in ``threads`` of each kernel thread id; -1 if missing."""
        row_of = {line.number: row for row, line in enumerate(self.threads)}
        return np.array([row_of.get(number, -1) for number in numbers.tolist()], dtype=np.int64)


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
    is_main = main_threads(trace, nested.threads).tolist()
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


def main_threads(trace: TraceData, lines: Sequence[Line]) -> Flags:
    """Threads that run the program: the one with most operators, and those with Python calls.

    Shape (lines,), or (1,) without lines.
    """
    result = np.zeros(max(len(lines), 1), dtype=np.bool_)
    all_of, counted, python = _counts(trace, lines)
    if all_of.any():
        result[int(np.argmax(counted if counted.any() else all_of))] = True
        result[python > 0] = True
    return result


def thread_of_program(trace: TraceData, lines: Sequence[Line]) -> int:
    """Row of the program's thread: it handles most marked requests, or else calls most operators.

    Requests come first because a server's operators may run on pool threads. Autograd's engine does
    not count. -1 for none.
    """
    _, counted, _ = _counts(trace, lines)
    requests, numbers = rows_of_requests(trace), trace.table("threads")["system_thread_id"]
    if len(requests) and len(numbers):
        most = int(numbers[np.argmax(np.bincount(trace.events["thread"][requests]))])
        return next((row for row, line in enumerate(lines) if line.number == most), -1)
    return int(np.argmax(counted)) if counted.any() else -1


def _counts(trace: TraceData, lines: Sequence[Line]) -> tuple[Amounts, Amounts, Amounts]:
    """Events, operators (forward, if any) and Python calls. Shapes (lines,); (1,) without lines."""
    events, threads = trace.events, trace.table("threads")
    size = max(len(lines), 1)
    if not len(events):
        return np.zeros(size), np.zeros(size), np.zeros(size)
    row_of = {line.number: row for row, line in enumerate(lines)}
    numbers = threads["system_thread_id"].tolist() if len(threads) else [lines[0].number]
    rows = np.array([row_of.get(number, -1) for number in numbers], dtype=np.int64)
    thread = events["thread"] if len(threads) else np.zeros(len(events), dtype=np.int32)
    is_forward = (events["kind"] == EventKind.OPERATOR) & (events["forward_thread"] == 0)
    kinds = np.bincount(
        thread.astype(np.int64) * _KINDS + events["kind"], minlength=len(numbers) * _KINDS
    ).reshape(len(numbers), _KINDS)
    of_threads = (
        kinds.sum(axis=1),
        kinds[:, EventKind.OPERATOR],
        np.bincount(thread[is_forward], minlength=len(numbers)),
        kinds[:, _PYTHON].sum(axis=1),
    )
    all_of, operators, forward, python = (
        np.bincount(rows[rows >= 0], weights=one[rows >= 0], minlength=size).astype(np.float64)
        for one in of_threads
    )
    if len(threads):
        # Their operators belong to passes that another thread requested.
        engine = rows[threads_of_engine(trace) & (rows >= 0)]
        if len(np.setdiff1d(np.flatnonzero(all_of), engine)):
            forward[engine] = operators[engine] = all_of[engine] = 0
    return all_of, forward if forward.any() else operators, python
