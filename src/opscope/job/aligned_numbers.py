"""Which collective of one rank is which of another: numbers that all ranks of a group share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.collectives.kinds import (
    FROM_ALL,
    NONE,
    POINT_TO_POINT,
    TO_ALL,
    UNEVEN,
)
from opscope.analysis.collectives.process_collectives import ProcessCollectives

Values = npt.NDArray[np.int64]

_FARTHEST = 2_000
"""By how many collectives two recordings may begin apart where nothing numbers them."""
_FEWEST = 3
"""In common, where two clocks do not tell more; fewer would fit anywhere."""
_CAUSAL = 0.99
"""Of the collectives in common, how many may not end in one rank before they begin in another."""
_LOOKED_AT = 1_000
"""Collectives that are looked at first, of many, to see whether a way fits."""
_CAUSAL_OF_FEW = 0.9
"""The same share of these, which scatters."""
_FAR_NS = 60e9
"""Recordings so far from each other are of different times, however clocks are set."""
_CLEARLY = 3.0
"""How many times nearer in time the best of several alignments is than the next, to be taken."""


@dataclass(frozen=True, eq=False)
class OneRank:
    """What one rank began in one group, in order. Arrays have shape (collectives,).

    Attributes:
        signature: equal where two are the same kind, as numbers.
        number: as its backend counts; ``NONE`` where that is not known.
        begin_ns: on a clock that ranks of one machine share.
        end_ns: likewise, ``NONE`` where it is not known, or where it may be before others begin.
        machine: which; ranks of one have one clock.
    """

    signature: Values
    number: Values
    begin_ns: Values
    end_ns: Values
    machine: int

    def __len__(self) -> int:
        return len(self.signature)


def one_rank(
    found: ProcessCollectives,
    rows: Values,
    signatures: dict[tuple[str, int], int],
    shift_ns: int,
    machine: int,
) -> OneRank:
    """Some rows of what a process began.

    Args:
        found: that.
        rows: of one group, in order.
        signatures: numbers of kinds; those that are new are added.
        shift_ns: what makes its times those of all.
        machine: that it ran on.
    """
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
    """What all ranks say alike of a collective: the size too, where all give and get as much."""
    if name in POINT_TO_POINT:
        return "message", 0
    return name, size_bytes if name.startswith(("allreduce", "broadcast")) else 0


def _waits_for_all(name: str) -> bool:
    """Whether no rank can be through before all have begun.

    Who gives to many may be before the last of them takes it, and who takes from one before a
    third begins. A message is not under way before somebody wants it (gloo, NCCL).
    """
    return name not in (*TO_ALL, *FROM_ALL, *UNEVEN)


def align(ranks: Sequence[OneRank]) -> list[Values]:
    """Numbers for the collectives of each rank, equal where it is the same one.

    What backends count is taken where it fits: the same kinds of collectives follow each other, and
    none ends in one rank before it begins in another. Else recordings are put beside each other so
    that it does; where several ways do, and time does not tell them apart, a rank gets none.

    Returns:
        For each rank, shape (collectives,); ``NONE`` for all of one that could not be aligned.
    """
    first = max(range(len(ranks)), key=lambda row: len(ranks[row]))
    reference = ranks[first]
    own = _counted(reference)
    return [
        own if row == first else _against(reference, own, rank) for row, rank in enumerate(ranks)
    ]


def _counted(rank: OneRank) -> Values:
    """Its own numbers where they are known and rise, else 0, 1, 2 and so on."""
    is_known = len(rank) and rank.number.min() != NONE and bool((np.diff(rank.number) > 0).all())
    return rank.number if is_known else np.arange(len(rank), dtype=np.int64)


def _against(reference: OneRank, numbers: Values, rank: OneRank) -> Values:
    none = np.full(len(rank), NONE, dtype=np.int64)
    if not len(rank):
        return none
    if numbers is reference.number and rank.number.min() != NONE:
        given = _counted(rank)
        if given is rank.number and _fits(reference, numbers, rank, given):
            # Without any in common the counts may be of more than what all ranks do, or the
            # recordings of different times.
            apart = abs(float(np.median(reference.begin_ns)) - float(np.median(rank.begin_ns)))
            is_found = bool(np.isin(given, numbers).any()) or apart > _FAR_NS
            other = given if is_found else _searched(reference, numbers, rank)
            return given if (other == NONE).all() else other
    return _searched(reference, numbers, rank)


def _common(reference: Values, other: Values) -> tuple[Values, Values]:
    _, rows, others = np.intersect1d(reference, other, assume_unique=True, return_indices=True)
    return rows, others


def _fits(reference: OneRank, numbers: Values, rank: OneRank, given: Values) -> bool:
    """Whether what has the same number can be the same collective; also where none is common."""
    rows, others = _common(numbers, given)
    same = reference.signature[rows] == rank.signature[others]
    return bool(same.all()) and _is_causal(reference, rows, rank, others)


def _is_causal(
    one: OneRank, rows: Values, other: OneRank, others: Values, share: float = _CAUSAL
) -> bool:
    if one.machine != other.machine or not len(rows):
        return True
    ends, other_ends = one.end_ns[rows], other.end_ns[others]
    fits = (other_ends == NONE) | (one.begin_ns[rows] <= other_ends)
    fits &= (ends == NONE) | (other.begin_ns[others] <= ends)
    known = (ends != NONE) | (other_ends != NONE)
    return not known.any() or float(fits[known].mean()) >= share


def _searched(reference: OneRank, numbers: Values, rank: OneRank) -> Values:
    """By the shift at which kinds agree; of several the one at which times do, if clearly so."""
    none = np.full(len(rank), NONE, dtype=np.int64)
    found: list[tuple[float, int]] = []
    size, own = len(reference), len(rank)
    fewest = min(_FEWEST, own, size) if reference.machine == rank.machine else _FEWEST
    for shift in range(max(fewest - own, -_FARTHEST), min(size - fewest, _FARTHEST) + 1):
        # The first of this rank is the one at ``shift`` of the reference.
        begin, end = max(shift, 0), min(shift + own, size)
        apart_ns = _apart_ns(reference, rank, shift, begin, end)
        if apart_ns is not None:
            found.append((apart_ns, shift))
    found.sort()
    if not found or (len(found) > 1 and found[1][0] < _CLEARLY * found[0][0]):
        return none
    shift = found[0][1]
    rows = np.arange(own) + shift
    inside = (rows >= 0) & (rows < size)
    none[inside] = numbers[rows[inside]]
    return none


def _apart_ns(reference: OneRank, rank: OneRank, shift: int, begin: int, end: int) -> float | None:
    """How far the same collectives are from each other in time, of those in the middle, at a shift
    at which rows ``begin`` to ``end`` of the reference are common; None where they are not the
    same.

    Thousands of shifts are looked at: most are told by some rows not to be it.
    """
    few = np.linspace(begin, end - 1, min(end - begin, _LOOKED_AT)).astype(np.int64)
    few_of_rank = few - shift
    if not (reference.signature[few] == rank.signature[few_of_rank]).all():
        return None
    if not _is_causal(reference, few, rank, few_of_rank, _CAUSAL_OF_FEW):
        return None
    kinds = reference.signature[begin:end] == rank.signature[begin - shift : end - shift]
    if not kinds.all():
        return None
    if len(few) < end - begin:
        rows = np.arange(begin, end)
        if not _is_causal(reference, rows, rank, rows - shift):
            return None
    elif not _is_causal(reference, few, rank, few_of_rank):
        return None
    apart = np.abs(reference.begin_ns[few] - rank.begin_ns[few_of_rank])
    return float(np.median(apart))
