"""The steps of one process, as they are laid beside those of others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import Account
from opscope.analysis.account.causes import Cause

Values = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ProcessSteps:
    """Steps of one process; times are nanoseconds of the thread that its program runs on.

    Attributes:
        number: of the steps, as the process counts. Shape (steps,).
        wall_ns: how long each took. Shape (steps,).
        table_ns: what each went to. Shape (steps, causes).
        cause_ns: what the time went to, in the steps, or in all where there are none. Shape
            (causes,).
        steps_are: what a step is, where the program does not mark them; else empty.
    """

    number: Values
    wall_ns: Values
    table_ns: Values
    cause_ns: Values
    steps_are: str

    @property
    def own_ns(self) -> Values:
        """How long each took without collectives and waiting for them. Shape (steps,)."""
        own: Values = self.wall_ns - self.table_ns[:, Cause.COLLECTIVE]
        return own


def steps_of_account(account: Account) -> ProcessSteps:
    """Those of an account of all of a recording."""
    table, steps = account.table(), account.steps
    return ProcessSteps(
        number=steps.number.astype(np.int64),
        wall_ns=steps.end_ns - steps.start_ns,
        table_ns=table,
        cause_ns=table.sum(axis=0) if len(steps) else _whole(account),
        steps_are=account.steps_are,
    )


def mean_step_ns(account: Account) -> int:
    """What a step takes on average; -1 without steps."""
    took = account.steps.end_ns - account.steps.start_ns
    return int(took.mean()) if len(took) else -1


def _whole(account: Account) -> Values:
    found = np.zeros(len(Cause), dtype=np.int64)
    for entry in account.entries():
        found[entry.cause] = entry.time_ns
    return found
