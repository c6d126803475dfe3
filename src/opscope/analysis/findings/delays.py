"""How long the main thread of a recording waited for a processor, and where: by stretch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.processor import Intervals, sampled_threads
from opscope.analysis.period import wall_bounds
from opscope.trace import processor_rows
from opscope.trace.codes import EventKind
from opscope.trace.trace import Trace
from opscope.tree.frame_text import event_texts

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_ODD, _SHORTEST_NS = 1.5, 200_000
"""What takes so many times the median and so much longer was interrupted: a turn is a few ms."""

_MOST = 0.98
_ENOUGH_KNOWN = 0.5
"""Of the time, what samples must tell of."""


def delays_ns(trace: Trace, intervals: Intervals, edges: Values, event: Values) -> Amounts:
    """Of each stretch of the thread, what it waited for a processor.

    Turns of a processor are long: it was where a stretch took longest beyond what those like it
    take that come after the same. What the kernel counted beyond that is spread.

    Args:
        trace: any.
        intervals: what the kernel counted of the thread.
        edges: where stretches begin, and the last one's end; Unix nanoseconds.
        event: the innermost of each stretch, -1 for none.
    """
    if not intervals.delayed_ns.any():
        return np.zeros(len(event))
    label, texts = event_texts(trace)
    usual = _native.usual_lengths(
        np.diff(edges),
        np.ascontiguousarray(event, dtype=np.int64),
        np.ascontiguousarray(label, dtype=np.int32),
        len(texts),
        _SHORTEST_NS,
    )
    start = np.ascontiguousarray(intervals.start_ns, dtype=np.int64)
    within = intervals.share_within(int(edges[0]), int(edges[-1]))
    delayed = (intervals.delayed_ns * within).astype(np.int64)
    return _native.delays(
        edges, usual, start, delayed, int(intervals.end_ns), _ODD, _SHORTEST_NS, _MOST
    )


def waited_share(trace: Trace) -> float | None:
    """Of the time, what the main thread waited for a processor, and never all of it; without what
    it waited for the GIL, as far as samples of it tell.

    None: not recorded.
    """
    start_ns, end_ns = wall_bounds(trace)
    sampled = sampled_threads(trace).get(main_thread(trace))
    if sampled is not None:
        within = sampled.share_within(start_ns, end_ns)
        known_ns = float((sampled.length_ns * within).sum())
        if known_ns >= _ENOUGH_KNOWN * (end_ns - start_ns):
            return min(float((sampled.delayed_ns * within).sum()) / max(known_ns, 1.0), _MOST)
    return _counted_share(trace)


def main_thread(trace: Trace) -> int:
    """The number of the main thread in the system; -1: not known."""
    numbers, row = trace.table("threads")["system_thread_id"], main_row(trace)
    return int(numbers[row]) if row < len(numbers) else -1


def main_row(trace: Trace) -> int:
    """The thread that calls most operators, or where none is called, most of anything, as a row of
    ``threads``."""
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    counted = trace.events["thread"][is_operator if is_operator.any() else slice(None)]
    return int(np.argmax(np.bincount(counted))) if len(counted) else 0


def _counted_share(trace: Trace) -> float | None:
    """What the kernel counted of the thread that opened the recording, waits for the GIL included:
    who asks for it every few milliseconds waits for a processor to do so."""
    counted = trace.ledger.get(processor_rows.SOURCE, {})
    waited, computed = (
        counted.get(what) for what in (processor_rows.WAITED, processor_rows.COMPUTED)
    )
    if waited is None or computed is None or waited + computed <= 0:
        return None
    start_ns, end_ns = trace.metadata.get("start_ns"), trace.metadata.get("end_ns")
    # A thread that sleeps neither computes nor waits for a processor.
    lasted = end_ns - start_ns if start_ns is not None and end_ns is not None else 0
    return min(waited / max(lasted, waited + computed), _MOST)
