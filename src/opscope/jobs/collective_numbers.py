"""Matching of collectives across ranks by numbers that all ranks of a group share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opscope.analysis.collectives.calls import (
    FROM_ALL,
    NONE,
    POINT_TO_POINT,
    TO_ALL,
    UNEVEN,
)
from opscope.analysis.collectives.process_collectives import ProcessCollectives
from opscope.timeline.arrays import Values

_CAUSAL = 0.99
"""Of the collectives in common, how many may not end in one rank before they begin in another."""


@dataclass(frozen=True, eq=False)
class OneRank:
    """Collectives that one rank began in one group, in order. Arrays have shape (collectives,)."""

    signature: Values  # equal where two are the same kind, as numbers
    number: Values  # as its backend counts; ``NONE`` where that is not known
    begin_ns: Values  # on a clock that ranks of one machine share
    # likewise, ``NONE`` where it is not known, or where it may be before others begin
    end_ns: Values
    machine: int  # which; ranks of one have one clock

    def __len__(self) -> int:
        return len(self.signature)


def one_rank(
    found: ProcessCollectives,
    rows: Values,
    signatures: dict[tuple[str, int], int],
    shift_ns: int,
    machine: int,
) -> OneRank:
    """Rows of one group of a process, in order; new kinds are added to ``signatures``."""
    size = np.maximum(found.sent_bytes, found.received_bytes)[rows].tolist()
    kinds = [_kind(found.name[row], of) for row, of in zip(rows.tolist(), size, strict=True)]
    signature = [signatures.setdefault(kind, len(signatures)) for kind in kinds]
    bounds = np.array([_waits_for_all(found.name[row]) for row in rows.tolist()], dtype=np.bool_)
    bounds &= found.end_ns[rows] != NONE
    return OneRank(
        signature=np.array(signature, dtype=np.int64),
        number=found.number[rows],
        begin_ns=found.begin_ns[rows] + shift_ns,
        end_ns=np.where(bounds, found.end_ns[rows] + shift_ns, NONE),
        machine=machine,
    )


def _kind(name: str, size_bytes: int) -> tuple[str, int]:
    """Name and size of a collective as all ranks see it; the size only where it is equal on all
    ranks."""
    if name in POINT_TO_POINT:
        return "message", 0
    return name, size_bytes if name.startswith(("allreduce", "broadcast")) else 0


def _waits_for_all(name: str) -> bool:
    """Whether no rank can be through before all have begun.

    Who gives to many may be before the last of them takes it, and who takes from one before a
    third begins. A message is not under way before its receiver wants it (gloo, NCCL).
    """
    return name not in (*TO_ALL, *FROM_ALL, *UNEVEN)


def align(ranks: Sequence[OneRank]) -> list[Values]:
    """Numbers for the collectives of each rank, equal where it is the same one.

    The backend's sequence numbers where they fit, else the order within the group. Numbers fit if
    what has the same one is of the same kind, and ends in no rank before it begins in another. The
    order alone is taken between machines only where both recorded equally many. Each of
    shape (collectives,); ``NONE`` for all of a rank that fits neither way.
    """
    first = max(range(len(ranks)), key=lambda row: len(ranks[row]))
    longest = ranks[first]
    own = longest.number if _is_numbered(longest) else np.arange(len(longest), dtype=np.int64)
    return [own if row == first else _against(longest, own, rank) for row, rank in enumerate(ranks)]


def _is_numbered(rank: OneRank) -> bool:
    """Whether its backend numbered all of its collectives, in their order."""
    number = rank.number
    return bool(len(rank) and number.min() != NONE and (np.diff(number) > 0).all())


def _against(longest: OneRank, numbers: Values, rank: OneRank) -> Values:
    are_numbered = numbers is longest.number and _is_numbered(rank)
    if are_numbered and _fits(longest, numbers, rank, rank.number):
        return rank.number
    in_order = numbers[: len(rank)]
    is_whole = longest.machine == rank.machine or len(longest) == len(rank)
    if is_whole and _fits(longest, numbers, rank, in_order):
        return in_order
    return np.full(len(rank), NONE, dtype=np.int64)


def _fits(longest: OneRank, numbers: Values, rank: OneRank, given: Values) -> bool:
    """Whether what has the same number can be the same collective; also where none is common."""
    _, rows, others = np.intersect1d(numbers, given, assume_unique=True, return_indices=True)
    is_same_kind = (longest.signature[rows] == rank.signature[others]).all()
    return bool(is_same_kind) and _is_causal(longest, rows, rank, others)


def _is_causal(one: OneRank, rows: Values, other: OneRank, others: Values) -> bool:
    if one.machine != other.machine:
        return True
    ends, other_ends = one.end_ns[rows], other.end_ns[others]
    fits = (other_ends == NONE) | (one.begin_ns[rows] <= other_ends)
    fits &= (ends == NONE) | (other.begin_ns[others] <= ends)
    known = (ends != NONE) | (other_ends != NONE)
    return not known.any() or float(fits[known].mean()) >= _CAUSAL
