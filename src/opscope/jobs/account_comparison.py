"""Comparison of the accounts of several processes: which of them differs from the median."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.account.account import Account
from opscope.base.quantity_text import share_text
from opscope.base.shown_result import ShownResult
from opscope.columns.causes import Cause
from opscope.jobs.rollup.read import Rollup
from opscope.storage.partition import RANK, Partition
from opscope.timeline.arrays import Amounts, Flags
from opscope.timeline.period import Which, no_start_up

FEWEST = 3  # fewest processes to compare: two have no median
_WORTH_SAYING = 0.05  # least difference from the median share


@dataclass(frozen=True)
class DifferingShare:
    """A process whose share of something differs from that of others."""

    process: Partition  # the process
    what: str  # the quantity, in words
    share: float  # its share, 0 to 1
    middle: float  # the median share
    compared: int  # number of processes in the median

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = {"what": self.what, "share": self.share, "middle": self.middle}
        return {self.process.kind: self.process.number, **values, "compared": self.compared}


@dataclass(frozen=True)
class ComparedShares:
    """Shares of causes, compared between processes."""

    compared: int  # most processes with a common quantity; 0 if there are too few
    differing: tuple[DifferingShare, ...]  # largest difference first


def compare_shares_of(
    shares: Mapping[str, Mapping[Partition, float]], among: Collection[Partition]
) -> ComparedShares:
    """Compare shares, by quantity, with the median of the processes ``among``."""
    compared, differing = 0, []
    for what, of_process in shares.items():
        by_part = {part: share for part, share in of_process.items() if part in among}
        if len(by_part) < FEWEST:
            continue
        compared, middle = max(compared, len(by_part)), statistics.median(by_part.values())
        differing += [
            DifferingShare(part, what, share, middle, len(by_part))
            for part, share in by_part.items()
            if abs(share - middle) >= _WORTH_SAYING
        ]
    differing.sort(key=lambda one: -abs(one.share - one.middle))
    return ComparedShares(compared, tuple(differing))


_SHOWN, _SHOWN_PROCESSES = 5, 20


@dataclass(frozen=True, eq=False)
class ComparedAccounts(ShownResult):
    """The main threads of several processes.

    Attributes:
        processes: the processes, in order.
        shares: share of each cause in the time of each process, shape (processes, causes).
        step_ns: mean duration of a step of each process; -1 without steps.
    """

    processes: tuple[Partition, ...]
    shares: Amounts
    step_ns: tuple[int, ...]

    @property
    def causes(self) -> list[Cause]:
        """The causes that occur, largest mean share first."""
        mean = self.shares.mean(axis=0)
        return [Cause(cause) for cause in np.argsort(-mean, kind="stable").tolist() if mean[cause]]

    @property
    def compared(self) -> int:
        """Number of comparable processes; 0 if there are too few."""
        count = int(self._is_comparable.sum())
        return count if count >= FEWEST else 0

    @property
    def differences(self) -> list[DifferingShare]:
        """Causes in which a process exceeds the median, largest difference first.

        Ranks are compared with ranks only, and processes with steps with those that have steps.
        Two processes have no median, so the list is empty.
        """
        shares = {
            cause.title: dict(zip(self.processes, self.shares[:, cause].tolist(), strict=True))
            for cause in self.causes
        }
        comparable = {self.processes[row] for row in np.flatnonzero(self._is_comparable)}
        differing = compare_shares_of(shares, comparable).differing
        return [one for one in differing if one.share > one.middle]

    def __repr__(self) -> str:
        causes = self.causes[:_SHOWN]
        rows = "".join(
            f"\n  {process}: "
            + ", ".join(f"{c.title} {share_text(self.shares[row, c])}" for c in causes)
            for row, process in enumerate(self.processes[:_SHOWN_PROCESSES])
        )
        more = len(self.processes) - _SHOWN_PROCESSES
        rows += f"\n  and {more} more" if more > 0 else ""
        return f"<ComparedAccounts of {len(self.processes)} processes{rows}>"

    @property
    def _is_comparable(self) -> Flags:
        is_rank = np.array([process.kind == RANK for process in self.processes])
        is_same_kind = is_rank if is_rank.any() else ~is_rank
        with_steps = is_same_kind & (np.array(self.step_ns) >= 0)
        return with_steps if with_steps.any() else is_same_kind


def compare_accounts(accounts: Mapping[Partition, Account]) -> ComparedAccounts:
    """Comparison of accounts, in the order of ``accounts``."""
    shares = np.zeros((len(accounts), len(Cause)))
    for row, account in enumerate(accounts.values()):
        for entry in account.entries():
            shares[row, entry.cause] = entry.share
    step_ns = tuple(account.step_ns for account in accounts.values())
    return ComparedAccounts(tuple(accounts), shares, step_ns)


def compare_rollups(rollups: Mapping[Partition, Rollup], which: Which) -> ComparedAccounts:
    """Comparison of the accounts of a period, from rollups."""
    if any(which.value not in one.mark.step_ns for one in rollups.values()):
        raise no_start_up()
    time_ns = np.array([one.causes_ns(which) for one in rollups.values()], dtype=np.float64)
    shares = time_ns / np.maximum(time_ns.sum(axis=1, keepdims=True), 1.0)
    step_ns = tuple(one.mark.step_ns[which.value] for one in rollups.values())
    return ComparedAccounts(tuple(rollups), shares, step_ns)
