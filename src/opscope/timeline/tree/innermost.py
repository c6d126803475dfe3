"""Which span is the innermost one on each thread, from one instant to the next.

Spans nest by time as for own times (:mod:`opscope.timeline.tree.line_nesting`); so the segments of
a thread say the same as own times do, and also when that was. Asynchronous spans have no segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.line_nesting import Line, line_nesting

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Segments:
    """Stretches of time, thread by thread in order of start; together they cover each thread.

    Attributes:
        threads: one line per thread of the system.
        thread: row in ``threads``, shape (segments,).
        start_ns: Unix nanoseconds, shape (segments,).
        length_ns: above 0, shape (segments,).
        event: the innermost span, row in ``events``; -1 where none is open. Shape (segments,).
        is_first: whether a span begins or ends where it starts. Shape (segments,).
        around: of every event the span directly around it by time, -1 for none; of asynchronous
            ones the parent. Shape (events,).
    """

    threads: tuple[Line, ...]
    thread: Values
    start_ns: Values
    length_ns: Values
    event: Values
    is_first: Flags
    around: Values

    def __len__(self) -> int:
        return len(self.start_ns)

    def rows_of(self, numbers: Values) -> Values:
        """Row in ``threads`` of each thread by its number in the system; -1 for none."""
        row_of = {line.number: row for row, line in enumerate(self.threads)}
        return np.array([row_of.get(number, -1) for number in numbers.tolist()], dtype=np.int64)


def innermost_segments(
    trace: TraceData, start_ns: int, end_ns: int, cuts: dict[int, Values]
) -> Segments:
    """The segments between two moments.

    Args:
        trace: any.
        start_ns: Unix nanoseconds; no event is open before.
        end_ns: likewise after.
        cuts: by number of a thread in the system, moments at which segments are to end, in order;
            those of -1 are for all threads.
    """
    nested = line_nesting(trace)
    threads = tuple(nested.threads)
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    for number, (line, rows) in enumerate(zip(threads, nested.rows, strict=True)):
        moments = [cuts[key] for key in (-1, line.number) if key in cuts]
        every = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *moments]), kind="stable")
        time, length, owner, is_first = _native.innermost_segments(
            nested.start_ns, nested.took_ns, nested.parent, rows, every, start_ns, end_ns
        )
        thread = np.full(len(time), number, dtype=np.int64)
        parts.append((thread, time, length, owner, is_first))
    if len(parts) == 1:  # nothing to put together: columns are long
        columns = list(parts[0])
    else:
        none = tuple(np.zeros((5, 0), dtype=np.int64))
        columns = [np.concatenate(column) for column in zip(*(parts or [none]), strict=True)]
    thread, time, length, event, is_first = columns
    around = nested.around.astype(np.int64)
    return Segments(threads, thread, time, length, event, is_first.astype(np.bool_), around)
