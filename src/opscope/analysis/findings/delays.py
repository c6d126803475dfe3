"""Where in a recording its main thread waited for a processor, stretch by stretch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.processor import Intervals
from opscope.analysis.grouped_medians import medians
from opscope.trace.row_groups import places_in
from opscope.trace.trace import Trace
from opscope.tree.frame_text import event_texts

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_ODD, _SHORTEST_NS = 1.5, 200_000
"""What takes so many times the median and so much longer was interrupted: a turn is a few ms."""

_MOST = 0.98


def delays_ns(trace: Trace, intervals: Intervals, edges: Values, event: Values) -> Amounts:
    """Of each stretch of the thread, what it waited for a processor.

    Turns of a processor are long: it was where a stretch took longer than those like it do. What
    the kernel counted beyond that is spread.

    Args:
        trace: any.
        intervals: what the kernel counted of the thread.
        edges: where stretches begin, and the last one's end; Unix nanoseconds.
        event: the innermost of each stretch, -1 for none.
    """
    length_ns = np.diff(edges)
    took = length_ns.astype(np.float64)
    if not intervals.delayed_ns.any():
        return np.zeros(len(took))
    row = places_in(intervals.start_ns, edges[:-1], side="right") - 1
    known = (row >= 0) & (edges[:-1] < intervals.end_ns)
    row = np.maximum(row, 0)
    beyond = np.where(known, np.maximum(took - _ODD * _medians(trace, length_ns, event), 0), 0.0)
    beyond[beyond < _SHORTEST_NS] = 0.0
    count, delayed = len(intervals.start_ns), intervals.delayed_ns.astype(np.float64)
    found = np.bincount(row, weights=beyond, minlength=count)
    waiting = beyond * np.minimum(delayed / np.maximum(found, 1.0), 1.0)[row]
    left = np.where(known, took - waiting, 0)
    room = np.bincount(row, weights=left, minlength=count)
    spread = np.minimum(np.maximum(delayed - found, 0) / np.maximum(room, 1.0), _MOST)
    return np.asarray(waiting + left * spread[row])


def _medians(trace: Trace, took: Values, event: Values) -> Amounts:
    """Of each stretch that may have been interrupted the median of those called alike, else 0."""
    result = np.zeros(len(took))
    label, texts = event_texts(trace)
    group = np.append(label, np.int32(len(texts)))[event]
    is_wanted = np.zeros(len(texts) + 1, dtype=np.bool_)
    is_wanted[group[took > _SHORTEST_NS]] = True
    rows = np.flatnonzero(is_wanted[group])
    alike = group[rows]
    result[rows] = medians(took[rows], alike, len(is_wanted))[alike]
    return result
