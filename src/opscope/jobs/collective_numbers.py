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
"""Least share of common collectives that do not end in one rank before they begin in another."""


@dataclass(frozen=True, eq=False)
class OneRank:
    """Collectives that one rank began in one group, in order. Arrays have shape (collectives,)."""

    signature: Values  # number of the kind; equal for equal kinds
    number: Values  # the backend's number; ``NONE`` if unknown
    begin_ns: Values  # on a clock that ranks of one machine share
    end_ns: Values  # likewise; ``NONE`` if unknown, or possibly before others begin
    machine: int  # number of the machine; its ranks share a clock

    def __len__(self) -> int:
        return len(self.signature)


def one_rank(
    calls: ProcessCollectives,
    rows: Values,
    signatures: dict[tuple[str, int], int],
    shift_ns: int,
    machine: int,
) -> OneRank:
    """Rows of one group of a process, in order; new kinds are added to ``signatures``."""
    size = np.maximum(calls.sent_bytes, calls.received_bytes)[rows].tolist()
    kinds = [_kind(calls.name[row], of) for row, of in zip(rows.tolist(), size, strict=True)]
    signature = [signatures.setdefault(kind, len(signatures)) for kind in kinds]
    bounds = np.array([_waits_for_all(calls.name[row]) for row in rows.tolist()], dtype=np.bool_)
    bounds &= calls.end_ns[rows] != NONE
    return OneRank(
        signature=np.array(signature, dtype=np.int64),
        number=calls.number[rows],
        begin_ns=calls.begin_ns[rows] + shift_ns,
        end_ns=np.where(bounds, calls.end_ns[rows] + shift_ns, NONE),
        machine=machine,
    )


def _kind(name: str, size_bytes: int) -> tuple[str, int]:
    """Name and size of a collective as all ranks see it; the size only if it is equal on all."""
    if name in POINT_TO_POINT:
        return "message", 0
    return name, size_bytes if name.startswith(("allreduce", "broadcast")) else 0


def _waits_for_all(name: str) -> bool:
    """Whether no rank can end before all have begun.

    A rank that gives to many may end before the last one takes, and one that takes from one may end
    before a third begins. A message starts only when its receiver is ready (gloo, NCCL).
    """
    return name not in (*TO_ALL, *FROM_ALL, *UNEVEN)


def align(ranks: Sequence[OneRank]) -> list[Values]:
    """Numbers for the collectives of each rank, equal for the same collective.

    These are the backend's numbers if they fit, else positions in the group. Numbers fit if
    collectives with the same number are of the same kind, and none ends in one rank before it
    begins in another. Positions count between machines only if both recorded equally many. Each of
    shape (collectives,); ``NONE`` for a rank where neither fits.
    """
    first = max(range(len(ranks)), key=lambda row: len(ranks[row]))
    longest = ranks[first]
    own = longest.number if _is_numbered(longest) else np.arange(len(longest), dtype=np.int64)
    return [own if row == first else _against(longest, own, rank) for row, rank in enumerate(ranks)]


def _is_numbered(rank: OneRank) -> bool:
    """Whether the backend numbered all collectives of a rank, in ascending order."""
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


def _fits(longest: OneRank, numbers: Values, rank: OneRank, rank_numbers: Values) -> bool:
    """Whether collectives with the same number can be the same; also True if there are none."""
    _, rows, others = np.intersect1d(numbers, rank_numbers, assume_unique=True, return_indices=True)
    is_same_kind = (longest.signature[rows] == rank.signature[others]).all()
    return bool(is_same_kind) and _is_causal(longest, rows, rank, others)


def _is_causal(rank: OneRank, rows: Values, other: OneRank, other_rows: Values) -> bool:
    if rank.machine != other.machine:
        return True
    ends, other_ends = rank.end_ns[rows], other.end_ns[other_rows]
    fits = (other_ends == NONE) | (rank.begin_ns[rows] <= other_ends)
    fits &= (ends == NONE) | (other.begin_ns[other_rows] <= ends)
    known = (ends != NONE) | (other_ends != NONE)
    return not known.any() or float(fits[known].mean()) >= _CAUSAL
