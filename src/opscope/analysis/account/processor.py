"""What the kernel counted of threads, laid over the pieces of their time.

Between two samples of a thread its kernel says how long it computed, how long it could have but
waited for a processor, and by the rest how long it was off in a call. Which piece between the two
that was is known where there is one, and where all of it was. Otherwise a call is taken to be the
long ones, and waiting for a processor to be in all of them alike; as much as might be elsewhere is
the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.collectives import is_within
from opscope.trace.codes import WaitsFor
from opscope.trace.table import Table

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_NEAR_NS = 100_000_000
"""A wait that no sample fell into is taken for the kind that one as close as this fell into."""

_LOOKING_NS = 2_000_000
"""Who waits for the GIL on a busy machine waits so long for a processor, again and again."""

FOR_ANOTHER = (WaitsFor.LOCK, WaitsFor.PROCESS, WaitsFor.OTHER)
"""What waiting for a thread that talks to other ranks looks like."""

_NO_STRETCHES = np.zeros((0, 2), dtype=np.int64)

_FAULT_NS = 500.0
_LEAST_FAULT_NS, _MOST_FAULT_NS = 100.0, 300_000.0
_ENOUGH_FAULTS, _ENOUGH_SYSTEM_NS = 1_000, 50_000_000
_TICK_NS = 10_000_000


@dataclass(frozen=True, eq=False)
class Intervals:
    """Between consecutive samples of one thread; arrays have shape (intervals,).

    Attributes:
        start_ns: Unix nanoseconds, in order; each ends where the next begins, the last at end_ns.
        end_ns: of the last.
        delayed_ns: able to run, but without a processor.
        blocked_ns: in a call that waits.
        faults_ns: of its computing, what the kernel needed to hand out pages, as estimated.
        waits_for: ``WaitsFor`` of that call, as far as a sample fell into one.
        is_seen: whether a sample of its own says so.
        waits_for_beside: the same for what is not in a transfer between ranks: by other samples
            than those that fell into a wait for one.
        is_seen_beside: whether one of those says so.
    """

    start_ns: Values
    end_ns: int
    delayed_ns: Values
    blocked_ns: Values
    faults_ns: Values
    waits_for: Values
    is_seen: Flags
    waits_for_beside: Values
    is_seen_beside: Flags


@dataclass(frozen=True, eq=False)
class OffProcessor:
    """Of each piece, how much of it is something else than it seemed. Shape (pieces,).

    Attributes:
        delayed_ns: waiting for a processor.
        blocked_ns: in a call that waits, of pieces that do not say so themselves.
        faults_ns: the kernel handing out pages.
        waits_for: ``WaitsFor`` of ``blocked_ns``.
        error_ns: as much of ``blocked_ns`` may belong to other pieces, or be of another kind.
        delayed_error_ns: likewise of ``delayed_ns``.
        is_sampled: whether samples cover the piece.
    """

    delayed_ns: Values
    blocked_ns: Values
    faults_ns: Values
    waits_for: Values
    error_ns: Values
    delayed_error_ns: Values
    is_sampled: Flags

    @classmethod
    def of_nothing(cls, count: int) -> OffProcessor:
        """Without samples."""
        amounts = np.zeros((6, count), dtype=np.int64)
        delayed, blocked, faults, waits_for, error, delayed_error = amounts
        sampled = np.zeros(count, dtype=np.bool_)
        return cls(delayed, blocked, faults, waits_for, error, delayed_error, sampled)


def intervals_by_thread(
    samples: Table, stretches: Values = _NO_STRETCHES
) -> Iterator[tuple[int, Intervals]]:
    """Those of every thread that has two samples, by its number in the system.

    Args:
        samples: ``thread_samples`` of a trace.
        stretches: when transfers between ranks were under way, as ``transfers`` has them.
    """
    order = np.lexsort((samples["time_ns"], samples["system_thread_id"]))
    thread = samples["system_thread_id"][order]
    edges = np.append(np.flatnonzero(np.diff(thread, prepend=-1)), len(order))
    fault_ns = _cost_of_a_fault(samples, order)
    for first, last in pairwise(edges.tolist()):
        if last - first > 1:
            yield int(thread[first]), _intervals(samples, order[first:last], fault_ns, stretches)


def _intervals(samples: Table, rows: Values, fault_ns: float, stretches: Values) -> Intervals:
    time, computed = samples["time_ns"][rows], samples["computed_ns"][rows]
    delayed, waits_for = samples["delayed_ns"][rows], samples["waits_for"][rows].astype(np.int64)
    # A wait for a processor is counted when it is over; until then it looks like any other wait.
    away = np.minimum.accumulate((time - computed - delayed)[::-1])[::-1]
    took, ran = np.diff(time), np.maximum(np.diff(computed), 0)
    blocked = np.clip(np.diff(away), 0, np.maximum(took - ran, 0))
    kinds, seen = _kinds(time, waits_for, blocked)
    for_ranks = np.isin(waits_for, FOR_ANOTHER) & is_within(time, stretches)
    beside = _kinds(time, np.where(for_ranks, WaitsFor.NOTHING, waits_for), blocked)
    faults = np.maximum(np.diff(samples["faults"][rows]), 0) * fault_ns
    idle = np.clip(took - ran - blocked, 0, None)
    # Who waits for the GIL looks for it every few milliseconds, and on a busy machine waits for a
    # processor to do so: with one at once it would go on waiting.
    # So it is often seen able to run, where a thread that waits for anything else is not.
    looking = (blocked > 0) & (idle > _LOOKING_NS)
    for_gil = (kinds == WaitsFor.GIL) & (seen | looking)
    seen = seen | for_gil
    blocked, idle = np.where(for_gil, blocked + idle, blocked), np.where(for_gil, 0, idle)
    return Intervals(
        start_ns=time[:-1],
        end_ns=int(time[-1]),
        delayed_ns=idle,
        blocked_ns=blocked,
        faults_ns=np.minimum(faults, ran).astype(np.int64),
        waits_for=kinds,
        is_seen=seen,
        waits_for_beside=np.where(for_gil, kinds, beside[0]),
        is_seen_beside=beside[1] | for_gil,
    )


def _kinds(time: Values, waits_for: Values, blocked: Values) -> tuple[Values, Flags]:
    """What each interval's waiting was for: what a sample at either end says, or the nearest."""
    after, before = waits_for[1:], waits_for[:-1]
    kinds = np.where(after != WaitsFor.NOTHING, after, before)
    seen = (kinds != WaitsFor.NOTHING) | (blocked == 0)
    known = np.flatnonzero(waits_for != WaitsFor.NOTHING)
    if len(known):
        right = np.searchsorted(time[known], time[1:]).clip(0, len(known) - 1)
        left = np.maximum(right - 1, 0)
        nearer = np.abs(time[known[left]] - time[1:]) <= np.abs(time[known[right]] - time[1:])
        chosen = known[np.where(nearer, left, right)]
        near = np.abs(time[chosen] - time[1:]) <= _NEAR_NS
        kinds = np.where(seen | ~near, kinds, waits_for[chosen])
    return kinds, seen


def _cost_of_a_fault(samples: Table, order: Values) -> float:
    """Nanoseconds that the kernel needs for one: its time per fault, where there were many."""
    same = np.diff(samples["system_thread_id"][order]) == 0
    faults = np.diff(samples["faults"][order])[same].astype(np.float64)
    system = np.diff(samples["system_ns"][order])[same].astype(np.float64)
    if faults.sum() < _ENOUGH_FAULTS or system.sum() < _ENOUGH_SYSTEM_NS:
        return _FAULT_NS
    slope = float((faults * system).sum() / (faults * faults).sum())
    return float(np.clip(slope, _LEAST_FAULT_NS, _MOST_FAULT_NS))


def lay_over(
    intervals: Intervals,
    start_ns: Values,
    length_ns: Values,
    waits: Flags,
    computes: Flags,
    in_transfer: Flags,
) -> OffProcessor:
    """What of each piece of one thread was off the processor.

    Args:
        intervals: of that thread.
        start_ns: of its pieces, each of which is within one interval or outside of all.
        length_ns: of its pieces.
        waits: pieces that say themselves that they wait.
        computes: pieces of operators, which wait only where nothing else can have.
        in_transfer: pieces during which a transfer between ranks was under way.
    """
    of = np.searchsorted(intervals.start_ns, start_ns, side="right") - 1
    inside = (of >= 0) & (start_ns < intervals.end_ns)
    group = np.where(inside, of, len(intervals.start_ns))
    length = length_ns.astype(np.float64)
    covered = _covered(intervals, length, group)
    blocked = covered * _padded(intervals.blocked_ns)
    kinds, is_seen = (
        np.where(in_transfer, _padded(during)[group], _padded(beside)[group])
        for during, beside in (
            (intervals.waits_for, intervals.waits_for_beside),
            (intervals.is_seen, intervals.is_seen_beside),
        )
    )
    is_seen = is_seen > 0
    # Who has what it waited for may then wait for the GIL, which only the kernel says.
    waits = waits & ~(is_seen & (kinds == WaitsFor.GIL))
    # What waits by its name takes of the waiting what it can; the rest waits without saying so.
    left = _left(blocked, np.where(waits, length, 0.0), group)
    free = np.where(waits, 0.0, length)
    unnamed, error = _longest_first(left, np.where(computes, 0.0, free), group)
    left = _left(left, unnamed, group)
    in_operators, error_of_these = _longest_first(left, np.where(computes, free, 0.0), group)
    unnamed, error = unnamed + in_operators, error + error_of_these
    wanted = covered * _padded(intervals.delayed_ns)
    # A processor is taken from a thread again and again, whatever it is doing then.
    delayed = _evenly(wanted, free - unnamed, group)
    delayed_error = delayed * (1 - _share_of_group(free - unnamed, group, len(wanted)))
    rest = np.maximum(free - unnamed - delayed, 0.0)
    return OffProcessor(
        delayed_ns=delayed.astype(np.int64),
        blocked_ns=unnamed.astype(np.int64),
        faults_ns=_evenly(covered * _padded(intervals.faults_ns), rest, group).astype(np.int64),
        waits_for=kinds.astype(np.int64),
        error_ns=np.where(is_seen, error, unnamed).astype(np.int64),
        delayed_error_ns=delayed_error.astype(np.int64),
        is_sampled=inside,
    )


def _covered(intervals: Intervals, length: Amounts, group: Values) -> Amounts:
    """How much of each interval pieces are of: what was off in it was so beside them as well."""
    took = np.diff(np.append(intervals.start_ns, intervals.end_ns)).astype(np.float64)
    inside = np.bincount(group, weights=length, minlength=len(took) + 1)[: len(took)]
    return np.append(np.minimum(inside / np.maximum(took, 1.0), 1.0), 0.0)


def _left(amount: Amounts, taken: Amounts, group: Values) -> Amounts:
    return np.maximum(amount - np.bincount(group, weights=taken, minlength=len(amount)), 0.0)


def _padded(values: npt.NDArray[np.generic]) -> Amounts:
    """With a 0 for pieces outside of all intervals."""
    return np.append(values.astype(np.float64), 0.0)


def _longest_first(amount: Amounts, room: Amounts, group: Values) -> tuple[Amounts, Amounts]:
    """An amount of every group among its members, the longest first, and how unsure that is.

    A thread that waited once between two samples did so in what took long for that reason.
    """
    given, error = np.zeros_like(room), np.zeros_like(room)
    members = np.flatnonzero((amount[group] > 0) & (room > 0))
    if not len(members):
        return given, error
    own, space = group[members], room[members]
    order = np.lexsort((-space, own))
    members, own, space = members[order], own[order], space[order]
    before = np.cumsum(space) - space
    before -= np.repeat(before[_firsts(own)], np.diff(np.append(_firsts(own), len(own))))
    got = np.clip(amount[own] - before, 0.0, space)
    given[members] = got
    weight = np.bincount(own, weights=space * space, minlength=len(amount))[own]
    error[members] = got * (1 - space * space / weight)
    return given, error


def _firsts(sorted_values: Values) -> Values:
    return np.flatnonzero(np.append(True, np.diff(sorted_values) != 0))


def _share_of_group(room: Amounts, group: Values, groups: int) -> Amounts:
    total = np.bincount(group, weights=room, minlength=groups)
    return np.asarray(room / np.maximum(total, 1e-9)[group], dtype=np.float64)


def _evenly(amount: Amounts, room: Amounts, group: Values) -> Amounts:
    """An amount of every group among its members, by how long they are."""
    if not amount.any():
        return np.zeros_like(room)
    total = np.bincount(group, weights=room, minlength=len(amount))
    share: Amounts = np.minimum(amount / np.maximum(total, 1e-9), 1.0)
    return np.asarray(share[group] * room, dtype=np.float64)
