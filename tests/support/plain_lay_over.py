"""What the kernel counted of threads, laid over pieces of their time with NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.processor import Intervals
from opscope.columns.codes import WaitsFor

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class OffProcessor:
    """Of each piece, how much of it is something else than it seemed. Shape (pieces,).

    Attributes:
        delayed_ns: waiting for a CPU.
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
