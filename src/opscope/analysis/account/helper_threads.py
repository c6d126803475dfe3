"""Backward passes that run on threads of their own, as they do where there is a device.

The autograd engine has a thread for each device; whoever calls ``backward()`` waits for it. On the
CPU it runs passes on the thread that asks for them.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.owners import ENGINE_PREFIX
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.stretches import union_of

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_TRANSFERS = re.compile(r"(gloo|nccl|mpi|ucc):")
"""What backends call the spans of their own threads, in which data goes from rank to rank."""


def transfers(trace: TraceData) -> Values:
    """From when to when any was: disjoint, in order. Shape (stretches, 2), Unix nanoseconds."""
    named = np.array([bool(_TRANSFERS.match(name)) for name in trace.names] + [False])
    rows = np.flatnonzero(named[trace.events["name"]]) if named.any() else np.zeros(0, dtype=int)
    return stretches_of(trace, rows)


def stretches_of(trace: TraceData, rows: Values, apart_ns: int = 0) -> Values:
    """When any event of ``rows`` runs: disjoint, in order, Unix nanoseconds.

    What is at most ``apart_ns`` apart is one. Shape (stretches, 2).
    """
    start = trace.events["start_ns"][rows].astype(np.int64)
    took = np.maximum(trace.events["duration_ns"][rows], 0)
    found = union_of(start, start + took, apart_ns)
    return np.stack([found.start_ns, found.end_ns], axis=1)


def is_within(moments_ns: Values, stretches: Values) -> Flags:
    """Which moments are in one of the stretches. Shape as ``moments_ns``."""
    place = np.searchsorted(stretches[:, 0], moments_ns, side="right") - 1
    found: Flags = place >= 0
    if len(stretches):
        found = found & (moments_ns < stretches[place, 1])
    return found


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
    """When such a thread ran any node: disjoint, in order, Unix nanoseconds. Shape (passes, 2)."""
    of_engine = threads_of_engine(trace)
    if not of_engine.any():
        return np.zeros((0, 2), dtype=np.int64)
    rows = np.flatnonzero(is_node(trace) & of_engine[trace.events["thread"]])
    return stretches_of(trace, rows, _APART_NS)


def is_node(trace: TraceData) -> Flags:
    """Which events are the engine's, around one node of a backward pass each. Shape (events,)."""
    named = np.array([name.startswith(ENGINE_PREFIX) for name in trace.names] + [False])
    return np.asarray(named[trace.events["name"]], dtype=np.bool_)
