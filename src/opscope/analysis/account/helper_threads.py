"""Threads that work for another one: backward passes of autograd, and transfers between ranks.

The autograd engine has a thread for each device; the caller of ``backward()`` waits for it. On the
CPU it runs passes on the thread that asks for them.
"""

from __future__ import annotations

import re

import numpy as np

from opscope.analysis.memory.owners import ENGINE_PREFIX
from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags
from opscope.timeline.stretches import Stretches, union_of

_TRANSFERS = re.compile(r"(gloo|nccl|mpi|ucc):")
"""What backends call the spans of their own threads, in which data goes from rank to rank."""


def transfers(trace: TraceData) -> Stretches:
    """When any transfer between ranks went on, Unix nanoseconds."""
    named = np.array([bool(_TRANSFERS.match(name)) for name in trace.names] + [False])
    return _stretches_of(trace, named[trace.events["name"]])


def _stretches_of(trace: TraceData, chosen: Flags, apart_ns: int = 0) -> Stretches:
    """When any of the chosen events ran; what is at most ``apart_ns`` apart is one."""
    start = trace.events["start_ns"][chosen].astype(np.int64)
    took = np.maximum(trace.events["duration_ns"][chosen], 0)
    return union_of(start, start + took, apart_ns)


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


def passes_of_engine(trace: TraceData) -> Stretches:
    """When any thread of the engine ran any node, Unix nanoseconds."""
    of_engine, chosen = threads_of_engine(trace), is_node(trace)
    chosen &= of_engine[trace.events["thread"]] if of_engine.any() else False
    return _stretches_of(trace, chosen, _APART_NS)


def is_node(trace: TraceData) -> Flags:
    """Which events are the engine's, around one node of a backward pass each. Shape (events,)."""
    named = np.array([name.startswith(ENGINE_PREFIX) for name in trace.names] + [False])
    return np.asarray(named[trace.events["name"]], dtype=np.bool_)
