"""The accounts of several processes side by side: which of them spends time on something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import Account
from opscope.analysis.account.causes import Cause
from opscope.analysis.period import NO_START_UP, Which
from opscope.analysis.quantity_text import share_text
from opscope.errors import UsageError
from opscope.job.compared_shares import FEWEST, compare_shares_of
from opscope.rollup.read import Rollup
from opscope.trace.partition import RANK, Partition

_SHOWN, _SHOWN_PROCESSES = 5, 20


@dataclass(frozen=True)
class Difference:
    """A process that has more of a cause than others.

    Attributes:
        process: which.
        cause: of what.
        share: of its time.
        middle: share in the middle one of all.
    """

    process: Partition
    cause: Cause
    share: float
    middle: float


@dataclass(frozen=True, eq=False)
class ComparedAccounts:
    """The main threads of several processes.

    Attributes:
        processes: in their order.
        shares: of the time, by process and cause, shape (processes, causes).
        step_ns: what a step took on average, per process; -1 without steps.
    """

    processes: tuple[Partition, ...]
    shares: npt.NDArray[np.float64]
    step_ns: tuple[int, ...]

    @property
    def causes(self) -> list[Cause]:
        """Those that there are, by how much they are on average, most first."""
        mean = self.shares.mean(axis=0)
        return [Cause(cause) for cause in np.argsort(-mean, kind="stable").tolist() if mean[cause]]

    @property
    def compared(self) -> int:
        """How many are alike, so that what one has more of means something; 0 for too few."""
        count = int(self._alike.sum())
        return count if count >= FEWEST else 0

    @property
    def differences(self) -> list[Difference]:
        """What processes have more of than the middle one, largest first.

        Ranks are compared with ranks, where there are any: who started them does something else;
        and what makes steps with what makes steps, where anything does.
        Of two neither is in the middle, so there is nothing to say.
        """
        causes = {cause.title: cause for cause in self.causes}
        shares = {
            title: dict(zip(self.processes, self.shares[:, cause].tolist(), strict=True))
            for title, cause in causes.items()
        }
        alike = {self.processes[row] for row in np.flatnonzero(self._alike)}
        return [
            Difference(one.process, causes[one.what], one.share, one.middle)
            for one in compare_shares_of(shares, alike).differing
            if one.share > one.middle
        ]

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
    def _alike(self) -> npt.NDArray[np.bool_]:
        is_rank = np.array([process.kind == RANK for process in self.processes])
        alike = is_rank if is_rank.any() else ~is_rank
        with_steps = alike & (np.array(self.step_ns) >= 0)
        return with_steps if with_steps.any() else alike


def compare_accounts(accounts: Mapping[Partition, Account]) -> ComparedAccounts:
    """Put them side by side."""
    return compare_shares({part: shares_of(account) for part, account in accounts.items()})


@dataclass(frozen=True, eq=False)
class CauseShares:
    """What of one account is put beside others.

    Attributes:
        of_time: by cause. Shape (causes,).
        step_ns: what a step took on average; -1 without steps.
    """

    of_time: npt.NDArray[np.float64]
    step_ns: int


def shares_of(account: Account) -> CauseShares:
    """Those of an account."""
    of_time = np.zeros(len(Cause))
    for entry in account.entries():
        of_time[entry.cause] = entry.share
    return CauseShares(of_time, account.step_ns)


def rollup_shares(rollup: Rollup, which: Which) -> CauseShares:
    """The same of what was added up.

    Raises:
        UsageError: the process has no such period.
    """
    step_ns = rollup.mark.step_ns.get(which.value)
    if step_ns is None:
        raise UsageError(NO_START_UP)
    time_ns = rollup.causes_ns(which)
    return CauseShares(time_ns / max(float(time_ns.sum()), 1.0), step_ns)


def compare_shares(found: Mapping[Partition, CauseShares]) -> ComparedAccounts:
    """The same of what is known of each."""
    shares = np.zeros((len(found), len(Cause)))
    for row, one in enumerate(found.values()):
        shares[row] = one.of_time
    return ComparedAccounts(tuple(found), shares, tuple(one.step_ns for one in found.values()))
