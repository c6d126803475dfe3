"""Backward passes that run on threads of their own, as they do where there is a device.

The autograd engine has a thread for each device; whoever calls ``backward()`` waits for it. On the
CPU it runs passes on the thread that asks for them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.collectives import stretches_of
from opscope.analysis.memory.owners import ENGINE_PREFIX
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_APART_NS = 1_000_000
"""Nodes of a pass are closer together."""


def threads_of_engine(trace: TraceData) -> Flags:
    """Threads on which nothing is called but by nodes of backward passes. Shape (threads,)."""
    events, count = trace.events, len(trace.table("threads"))
    nodes = is_node(trace)
    if not nodes.any() or not count:
        return np.zeros(count, dtype=np.bool_)
    outermost = (events["parent"] < 0) & (events["kind"] != EventKind.RUNTIME_CALL)
    others = np.bincount(events["thread"][outermost & ~nodes], minlength=count)
    return np.asarray((np.bincount(events["thread"][nodes], minlength=count) > 0) & (others == 0))


def passes_of_engine(trace: TraceData) -> Values:
    """From when to when such a thread ran any: disjoint, in order, Unix nanoseconds.

    Returns:
        Shape (passes, 2).
    """
    of_engine = threads_of_engine(trace)
    if not of_engine.any():
        return np.zeros((0, 2), dtype=np.int64)
    rows = np.flatnonzero(is_node(trace) & of_engine[trace.events["thread"]])
    return stretches_of(trace, rows, _APART_NS)


def is_node(trace: TraceData) -> Flags:
    """Which events are the engine's, around one node of a backward pass each. Shape (events,)."""
    named = np.array([name.startswith(ENGINE_PREFIX) for name in trace.names] + [False])
    return np.asarray(named[trace.events["name"]], dtype=np.bool_)
