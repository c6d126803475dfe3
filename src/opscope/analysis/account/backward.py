"""Backward passes that run on threads of their own, as they do where there is a device.

The autograd engine has a thread for each device; whoever calls ``backward()`` waits for it. On the
CPU it runs passes on the thread that asks for them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.owners import ENGINE_PREFIX
from opscope.trace.codes import EventKind
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_APART_NS = 1_000_000
"""Nodes of a pass are closer together."""


def threads_of_engine(trace: Trace) -> Flags:
    """Threads on which nothing is called but by nodes of backward passes. Shape (threads,)."""
    events, count = trace.events, len(trace.table("threads"))
    nodes = _is_node(trace)
    if not nodes.any() or not count:
        return np.zeros(count, dtype=np.bool_)
    outermost = (events["parent"] < 0) & (events["kind"] != EventKind.RUNTIME_CALL)
    others = np.bincount(events["thread"][outermost & ~nodes], minlength=count)
    return np.asarray((np.bincount(events["thread"][nodes], minlength=count) > 0) & (others == 0))


def passes_of_engine(trace: Trace) -> Values:
    """From when to when such a thread ran any: disjoint, in order, Unix nanoseconds.

    Returns:
        Shape (passes, 2).
    """
    of_engine = threads_of_engine(trace)
    if not of_engine.any():
        return np.zeros((0, 2), dtype=np.int64)
    events = trace.events
    rows = np.flatnonzero(_is_node(trace) & of_engine[events["thread"]])
    start = events["start_ns"][rows].astype(np.int64)
    end = np.maximum.accumulate(start + np.maximum(events["duration_ns"][rows], 0))
    begins = np.append(True, start[1:] > end[:-1] + _APART_NS)
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(start) - 1)
    return np.stack([start[begins], end[last]], axis=1)


def _is_node(trace: Trace) -> Flags:
    is_node = np.array([name.startswith(ENGINE_PREFIX) for name in trace.names] + [False])
    return np.asarray(is_node[trace.events["name"]], dtype=np.bool_)
