"""Waits of the main thread for other processes, without the time that any of them lacked a CPU.

A wait counts without the time in which the other process had no CPU: on a busy machine, workers of
a DataLoader and other ranks are late although they have little to compute. The process that a wait
is for is not recorded, so the process with the longest waits for a CPU counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from opscope.analysis.account.divided import main_row, main_time
from opscope.analysis.account.processor import sampled_threads
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.period import Which
from opscope.timeline.tree.event_tree import event_tree, events_named, nearest_ancestor
from opscope.timeline.waits import cause_of_name

LOADED_BY_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter"
"""Around each batch of a DataLoader that has workers."""

_WINDOW_NS = 500_000_000
"""Shortest time over which waits are compared with counters of processes: within less, some process
nearly always waits for a CPU most of the time."""


@dataclass(frozen=True, eq=False)
class ProcessWaits:
    """Arrays have shape (waits,).

    Attributes:
        start_ns: begins, Unix nanoseconds, in order.
        end_ns: ends.
        waited_ns: time of each in which the thread did nothing else.
        blocked_ns: part of this in which the thread was blocked; in the rest it had no CPU.
        others_ns: part of ``blocked_ns`` in which the other process had no CPU; 0 if unknown.
        is_loader: whether it is a wait for workers of a DataLoader; otherwise for ranks.
        is_known: whether the counters of any other process were recorded.
    """

    start_ns: Values
    end_ns: Values
    waited_ns: Values
    blocked_ns: Values
    others_ns: Values
    is_loader: Flags
    is_known: bool

    @property
    def counted_ns(self) -> Values:
        """The part of each that counts."""
        return self.blocked_ns - self.others_ns

    def at(self, moments: Values) -> Values:
        """Row of the wait at each moment; -1 for none. Shape as ``moments``."""
        row = np.searchsorted(self.start_ns, moments, side="right") - 1
        return np.where(moments < np.append(self.end_ns, 0)[row], row, -1)

    def counted_share(self, is_loader: bool) -> float:
        """Share of all waits of a kind that counts."""
        chosen = self.is_loader == is_loader
        return float(self.counted_ns[chosen].sum() / max(int(self.waited_ns[chosen].sum()), 1))


@derived
def process_waits(trace: TraceData) -> ProcessWaits:
    """The waits of a part of a trace; cached."""
    loads, ranks = _loads(trace), waits_for_ranks(trace)
    start, end, waited = (
        np.concatenate(both).astype(np.int64) for both in zip(loads, ranks, strict=True)
    )
    order = np.argsort(start, kind="stable")
    start, end, waited = start[order], end[order], waited[order]
    blocked = np.minimum(_blocked(trace, start, end), waited)
    others, delayed = _delays_of_others(trace), np.zeros(len(start), dtype=np.int64)
    if len(start) and others:
        edges = _window_edges(int(start[0]), np.sort(end))
        window = np.searchsorted(edges[1:-1], end, side="left")
        of_others = [np.maximum(np.diff(np.interp(edges, *one)), 0) for one in others]
        whole = np.bincount(window, blocked, len(edges) - 1)
        share = np.minimum(np.max(of_others, axis=0) / np.maximum(whole, 1), 1.0)
        delayed = (blocked * share[window]).astype(np.int64)
    is_loader = order < len(loads[0])
    return ProcessWaits(start, end, waited, blocked, delayed, is_loader, bool(others))


def _blocked(trace: TraceData, start: Values, end: Values) -> Values:
    """Time of each wait in which the main thread could not run, from samples of the thread.

    A thread does not compute in a wait, so its blocked time between two samples is in the wait.
    """
    threads, row = trace.table("threads")["system_thread_id"], main_row(trace)
    number = int(threads[row]) if row < len(threads) else 0
    samples = sampled_threads(trace).get(number)
    if samples is None or not len(start):
        return end - start
    moments = np.unique(np.concatenate([start, end, samples.start_ns, [samples.end_ns]]))
    length, begin = np.diff(moments), moments[:-1]
    wait = np.searchsorted(start, begin, side="right") - 1
    interval = np.searchsorted(samples.start_ns, begin, side="right") - 1
    inside = (wait >= 0) & (begin < end[wait])
    known = inside & (interval >= 0) & (begin < samples.end_ns)
    whole = np.bincount(interval[known], length[known], len(samples.start_ns))
    rate = np.minimum(samples.blocked_ns / np.maximum(whole, 1), 1.0)
    blocked = np.where(known, length * rate[interval], length)[inside]
    return np.bincount(wait[inside], blocked, len(start)).astype(np.int64)


def _loads(trace: TraceData) -> tuple[Values, Values, Values]:
    """Start, end and length of the main thread's waits for DataLoader workers."""
    loads = events_named(trace, lambda name: LOADED_BY_WORKERS in name)
    if not loads.any():
        return _NONE
    loads &= trace.events["thread"] == main_row(trace)
    tree = event_tree(trace)
    chosen = loads & (nearest_ancestor(tree.parent, loads) < 0)
    start, took = tree.start_ns[chosen], tree.duration_ns[chosen]
    return start, start + took, took


def waits_for_ranks(trace: TraceData) -> tuple[Values, Values, Values]:
    """Start, end and length of the main thread's waits in collectives."""
    if not any(cause_of_name(text).cause is Cause.COLLECTIVE for text in trace.names):
        return _NONE
    found = main_time(trace, Which.ALL, (Cause.COLLECTIVE,))
    start, first, of = np.unique(found.start_ns, return_index=True, return_inverse=True)
    waited = np.bincount(of.reshape(-1), found.time_ns, len(start)).astype(np.int64)
    return start, found.end_ns[first], waited


_NONE = (np.zeros(0, dtype=np.int64),) * 3


def _delays_of_others(trace: TraceData) -> list[tuple[Values, Values]]:
    """For each other process, moments and its time without a CPU until then."""
    samples = trace.table("thread_samples")
    rows = np.flatnonzero(samples["system_thread_id"] < 0)
    rows = rows[np.lexsort((samples["time_ns"][rows], samples["system_thread_id"][rows]))]
    process = samples["system_thread_id"][rows]
    edges = [0, *(np.flatnonzero(np.diff(process)) + 1).tolist(), len(rows)]
    parts = [rows[first:last] for first, last in pairwise(edges) if last > first]
    return [(samples["time_ns"][one], samples["delayed_ns"][one]) for one in parts]


def _window_edges(begin_ns: int, ends_ns: Values) -> Values:
    """The begin, and ends of waits that are a window or more apart; the last end."""
    edges = [begin_ns]
    while (at := int(np.searchsorted(ends_ns, edges[-1] + _WINDOW_NS))) < len(ends_ns):
        edges.append(int(ends_ns[at]))
    if len(edges) > 1:
        edges.pop()  # the rest belongs to the last window
    return np.array([*edges, int(ends_ns[-1])], dtype=np.int64)
