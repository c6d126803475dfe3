"""Threads that work for others: backward passes of autograd, and transfers between ranks.

The autograd engine has a thread for each device; the caller of ``backward()`` waits for it. On the
CPU it runs passes on the caller's thread.
"""

from __future__ import annotations

import re

import numpy as np

from opscope.columns.codes import EventKind
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags
from opscope.timeline.stretches import Stretches, union_of
from opscope.timeline.tree.event_tree import events_named

_TRANSFERS = re.compile(r"(gloo|nccl|mpi|ucc):")
"""Names of spans of backends' own threads, in which data is sent between ranks."""


def transfers(trace: TraceData) -> Stretches:
    """Times with any transfer between ranks, Unix nanoseconds."""
    return _stretches_of(trace, events_named(trace, _TRANSFERS.match))


def _stretches_of(trace: TraceData, chosen: Flags, apart_ns: int = 0) -> Stretches:
    """Times with any of the chosen events; those at most ``apart_ns`` apart are merged."""
    start = trace.events["start_ns"][chosen].astype(np.int64)
    took = np.maximum(trace.events["duration_ns"][chosen], 0)
    return union_of(start, start + took, apart_ns)


_APART_NS = 1_000_000  # longest distance of consecutive nodes of a pass


def threads_of_engine(trace: TraceData) -> Flags:
    """Threads that run only nodes of backward passes. Shape (threads,)."""
    events, count = trace.events, len(trace.table("threads"))
    nodes = is_node(trace)
    if not nodes.any() or not count:
        return np.zeros(count, dtype=np.bool_)
    outermost = (events["parent"] < 0) & (events["kind"] != EventKind.RUNTIME_CALL)
    others = np.bincount(events["thread"][outermost & ~nodes], minlength=count)
    return np.asarray((np.bincount(events["thread"][nodes], minlength=count) > 0) & (others == 0))


def passes_of_engine(trace: TraceData) -> Stretches:
    """Times with any node on any thread of the engine, Unix nanoseconds."""
    of_engine, chosen = threads_of_engine(trace), is_node(trace)
    chosen &= of_engine[trace.events["thread"]] if of_engine.any() else False
    return _stretches_of(trace, chosen, _APART_NS)


def is_node(trace: TraceData) -> Flags:
    """Which events are the engine's spans around a node of a backward pass. Shape (events,)."""
    return events_named(trace, lambda name: name.startswith(ENGINE_PREFIX))
