"""Shares of several processes side by side: which one differs from the one in the middle."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from opscope.storage.partition import Partition

FEWEST = 3
"""Processes to compare: of two neither is in the middle."""
_WORTH_SAYING = 0.05
"""Of what it is a share of, by which a process is above or below the middle one."""


@dataclass(frozen=True)
class DifferingShare:
    """A process that has more or less of something than others.

    Attributes:
        process: which.
        what: of what, in words.
        share: that it has, 0 to 1.
        middle: share of the middle one.
        compared: how many it is the middle one of.
    """

    process: Partition
    what: str
    share: float
    middle: float
    compared: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON: plain values."""
        values = {"what": self.what, "share": self.share, "middle": self.middle}
        return {self.process.kind: self.process.number, **values, "compared": self.compared}


@dataclass(frozen=True)
class ComparedShares:
    """What was compared, and what is not alike.

    Attributes:
        compared: how many processes at most; 0 where too few have anything in common: of two
            neither is in the middle.
        differing: largest difference first.
    """

    compared: int
    differing: tuple[DifferingShare, ...]


def compare_shares_of(
    shares: Mapping[str, Mapping[Partition, float]], among: Collection[Partition]
) -> ComparedShares:
    """Compare each share with that of the middle process.

    Args:
        shares: by what they are of, in words; those that are not known are left out.
        among: the processes that are compared with each other.
    """
    most, differing = 0, []
    for what, of_process in shares.items():
        own = {part: share for part, share in of_process.items() if part in among}
        if len(own) < FEWEST:
            continue
        most, middle = max(most, len(own)), statistics.median(own.values())
        differing += [
            DifferingShare(part, what, share, middle, len(own))
            for part, share in own.items()
            if abs(share - middle) >= _WORTH_SAYING
        ]
    differing.sort(key=lambda one: -abs(one.share - one.middle))
    return ComparedShares(most, tuple(differing))
