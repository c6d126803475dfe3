"""Own time the plain way: between two edges, the open span that began last."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import thread_lines


def plain_own_times(trace):
    """Nanoseconds of every event, shape (events,)."""
    own = np.zeros(len(trace.events), dtype=np.int64)
    for _, _, _, pieces in _pieces_of_threads(trace):
        for row, first, last in pieces:
            own[row] += last - first
    return own


def covered_ns(trace):
    """Of every thread the time in which any of its spans is open, shape (threads,)."""
    found = []
    for rows, start, end, _ in _pieces_of_threads(trace):
        covered, reached = 0, None
        for row in rows:
            begin = start[row] if reached is None else max(start[row], reached)
            covered += max(int(end[row] - begin), 0)
            reached = end[row] if reached is None else max(end[row], reached)
        found.append(covered)
    return found


def _pieces_of_threads(trace):
    tree = event_tree(trace)
    start, end = tree.start_ns, tree.start_ns + np.maximum(tree.duration_ns, 0)
    lines, line = thread_lines(trace)
    for number in range(len(lines)):
        rows = np.flatnonzero((line == number) & ~trace.events["is_async"])
        rows = rows[np.argsort(start[rows], kind="stable")].tolist()
        yield rows, start, end, _pieces(rows, start, end)


def _pieces(rows, start, end):
    """Each stretch of time and the row whose it is."""
    edges = sorted({int(time) for row in rows for time in (start[row], end[row])})
    open_spans, following = [], iter(enumerate(rows))
    place, row = next(following, (None, None))
    for first, last in pairwise(edges):
        while row is not None and start[row] <= first:
            heapq.heappush(open_spans, (-place, row))
            place, row = next(following, (None, None))
        while open_spans and end[open_spans[0][1]] <= first:
            heapq.heappop(open_spans)
        if open_spans:
            yield open_spans[0][1], first, last
