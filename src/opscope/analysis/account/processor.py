"""Kernel counters of threads, assigned to intervals of their time.

Between two samples of a thread the kernel counts how long it computed and how long it waited for a
CPU; the rest is time in blocking calls. With one piece between the samples, or one state for all of
the time, the assignment is exact. Otherwise blocking is assigned to the long calls, and waiting for
a CPU evenly; what might belong elsewhere is the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from opscope.columns.codes import WaitsFor
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Amounts, Flags, Values
from opscope.timeline.stretches import Stretches, union_of

_NEAR_NS = 100_000_000
"""A wait without a sample gets the kind of a sampled wait that is at most this far away."""

_LOOKING_NS = 2_000_000
"""On a busy machine a thread that waits for the GIL repeatedly waits this long for a CPU."""

FOR_ANOTHER = (WaitsFor.LOCK, WaitsFor.PROCESS, WaitsFor.OTHER)
"""States of a thread that waits for another thread that communicates with other ranks."""

_NO_STRETCHES = union_of(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

_FAULT_NS = 500.0
_LEAST_FAULT_NS, _MOST_FAULT_NS = 100.0, 300_000.0
_ENOUGH_FAULTS, _ENOUGH_SYSTEM_NS = 1_000, 50_000_000


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals between consecutive samples of one thread; arrays have shape (intervals,)."""

    start_ns: Values  # Unix nanoseconds; an interval ends where the next begins
    end_ns: int  # end of the last one
    delayed_ns: Values  # able to run, but without a CPU
    blocked_ns: Values  # in a blocking call
    faults_ns: Values  # estimated part of computing in which the kernel provided memory pages
    waits_for: Values  # ``WaitsFor`` of the blocking call, known if a sample fell into it
    is_seen: Flags  # whether one of the interval's own samples shows it
    waits_for_beside: Values  # ``waits_for`` without samples in waits for a transfer
    is_seen_beside: Flags  # whether one of these samples shows it

    @property
    def length_ns(self) -> Values:
        """Length of each."""
        return np.append(self.start_ns[1:], self.end_ns) - self.start_ns

    def share_within(self, begin_ns: int, end_ns: int) -> Amounts:
        """Share of each between two moments, Unix nanoseconds."""
        first, last = np.maximum(self.start_ns, begin_ns), self.start_ns + self.length_ns
        inside = np.maximum(np.minimum(last, end_ns) - first, 0)
        return np.asarray(inside / np.maximum(self.length_ns, 1), dtype=np.float64)


def intervals_by_thread(
    trace: TraceData, stretches: Stretches = _NO_STRETCHES
) -> Iterator[tuple[int, Intervals]]:
    """Intervals of every thread with two samples, by kernel thread id.

    ``stretches``: times of transfers between ranks, from ``transfers``.
    """
    samples = trace.table("thread_samples")
    order = np.lexsort((samples["time_ns"], samples["system_thread_id"]))
    thread = samples["system_thread_id"][order]
    edges = np.append(np.flatnonzero(np.diff(thread, prepend=-1)), len(order))
    threads = [
        (int(thread[first]), order[first:last])
        for first, last in pairwise(edges.tolist())
        if last - first > 1
    ]
    fault_ns = _cost_of_a_fault(samples, [rows for _, rows in threads])
    for number, rows in threads:
        yield number, _intervals(samples, rows, fault_ns, stretches)


@derived
def sampled_threads(trace: TraceData) -> dict[int, Intervals]:
    """``intervals_by_thread`` without transfers, by kernel thread id; cached for each trace."""
    return dict(intervals_by_thread(trace))


def _intervals(samples: Table, rows: Values, fault_ns: float, stretches: Stretches) -> Intervals:
    time, computed = samples["time_ns"][rows], samples["computed_ns"][rows]
    delayed, waits_for = samples["delayed_ns"][rows], samples["waits_for"][rows].astype(np.int64)
    # A wait for a CPU is counted when it ends; until then it looks like any other wait.
    away = np.minimum.accumulate((time - computed - delayed)[::-1])[::-1]
    took, ran = np.diff(time), np.maximum(np.diff(computed), 0)
    blocked = np.clip(np.diff(away), 0, np.maximum(took - ran, 0))
    kinds, seen = _kinds(time, waits_for, blocked)
    for_ranks = np.isin(waits_for, FOR_ANOTHER) & stretches.contain(time)
    outside_transfers = _kinds(time, np.where(for_ranks, WaitsFor.NOTHING, waits_for), blocked)
    faults = np.diff(samples["faults"][rows]) * fault_ns
    idle = np.clip(took - ran - blocked, 0, None)
    # A thread that waits for the GIL wakes every few milliseconds, and on a busy machine waits for
    # a CPU to do so. So it is often seen able to run, unlike threads in other waits.
    looking = (blocked > 0) & (idle > _LOOKING_NS)
    for_gil = (kinds == WaitsFor.GIL) & (seen | looking)
    seen = seen | for_gil
    blocked, idle = np.where(for_gil, blocked + idle, blocked), np.where(for_gil, 0, idle)
    return Intervals(
        start_ns=time[:-1],
        end_ns=int(time[-1]),
        delayed_ns=idle,
        blocked_ns=blocked,
        faults_ns=np.clip(faults, 0, ran).astype(np.int64),
        waits_for=kinds,
        is_seen=seen,
        waits_for_beside=np.where(for_gil, kinds, outside_transfers[0]),
        is_seen_beside=outside_transfers[1] | for_gil,
    )


def _kinds(time: Values, waits_for: Values, blocked: Values) -> tuple[Values, Flags]:
    """Kind of wait of each interval: that of a sample at either end, or of the nearest sample."""
    after, before = waits_for[1:], waits_for[:-1]
    kinds = np.where(after != WaitsFor.NOTHING, after, before)
    seen = (kinds != WaitsFor.NOTHING) | (blocked == 0)
    sampled = np.flatnonzero(waits_for != WaitsFor.NOTHING)
    if len(sampled):
        right = np.searchsorted(time[sampled], time[1:]).clip(0, len(sampled) - 1)
        left = np.maximum(right - 1, 0)
        nearer = np.abs(time[sampled[left]] - time[1:]) <= np.abs(time[sampled[right]] - time[1:])
        chosen = sampled[np.where(nearer, left, right)]
        near = np.abs(time[chosen] - time[1:]) <= _NEAR_NS
        kinds = np.where(seen | ~near, kinds, waits_for[chosen])
    return kinds, seen


def _cost_of_a_fault(samples: Table, threads: Sequence[Values]) -> float:
    """Kernel nanoseconds per page fault, if there were many; ``threads``: rows of each thread."""
    if not threads:
        return _FAULT_NS
    faults, system = (
        np.concatenate([np.diff(samples[column][rows]) for rows in threads])
        for column in ("faults", "system_ns")
    )
    if faults.sum() < _ENOUGH_FAULTS or system.sum() < _ENOUGH_SYSTEM_NS:
        return _FAULT_NS
    slope = float((faults * system).sum() / (faults * faults).sum())
    return float(np.clip(slope, _LEAST_FAULT_NS, _MOST_FAULT_NS))
