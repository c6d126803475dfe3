"""Where in a recording its main thread waited for a processor, stretch by stretch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.processor import Intervals
from opscope.trace.trace import Trace
from opscope.tree.frame_text import event_texts

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_ODD, _SHORTEST_NS = 1.5, 200_000
"""What takes so many times the median and so much longer was interrupted: a turn is a few ms."""

_MOST = 0.98


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
    delayed = np.ascontiguousarray(intervals.delayed_ns, dtype=np.int64)
    return _native.delays(
        edges, usual, start, delayed, int(intervals.end_ns), _ODD, _SHORTEST_NS, _MOST
    )
