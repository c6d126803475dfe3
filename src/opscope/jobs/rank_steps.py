"""Steps of several processes side by side: durations, and own times without waits for others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.base.shown_result import ShownResult
from opscope.columns.causes import Cause
from opscope.jobs.rollup.schema import STEPS, cause_column
from opscope.storage.partition import Partition
from opscope.timeline.arrays import Amounts, Values
from opscope.timeline.period import Which

if TYPE_CHECKING:  # it takes Arrow, which is not loaded into programs that are recorded
    from opscope.jobs.rollup.read import Rollup


_SHOWN = 20

NONE = -1  # value for a missing step


@dataclass(frozen=True, eq=False)
class RankSteps(ShownResult):
    """Steps of processes; times are nanoseconds of the thread that the program runs on.

    Attributes:
        processes: the processes, in order.
        number: number of each step, as each process counts them. Shape (steps,).
        wall_ns: duration of a step; -1 if missing. Shape (processes, steps).
        own_ns: the same without collectives and waits for them.
        table_ns: time of each step by cause. Shape (processes, steps, causes).
        cause_ns: time of each process by cause, in its steps, or in the whole recording without
            steps. Shape (processes, causes).
        steps_are: what a step is, if the programs do not mark steps; else empty.
    """

    processes: tuple[Partition, ...]
    number: Values
    wall_ns: Values
    own_ns: Values
    table_ns: Values
    cause_ns: Values
    steps_are: str

    def __repr__(self) -> str:
        own_ns = zip(self.processes, self.mean_own_ns.tolist(), strict=True)
        lines = [
            f"\n  {process}: {'no steps' if math.isnan(own) else time_text(int(own))}"
            for process, own in list(own_ns)[:_SHOWN]
        ]
        more = len(self.processes) - _SHOWN
        lines += [f"\n  and {more} more"] if more > 0 else []
        return (
            f"<RankSteps of {len(self.processes)} processes, {len(self.number)} steps; own time "
            f"of a step:{''.join(lines)}>"
        )

    @property
    def mean_own_ns(self) -> Amounts:
        """Mean own time of a step of each process; NaN without steps. Shape (processes,)."""
        means = np.full(len(self.processes), np.nan)
        for row, own_ns in enumerate(self.own_ns):
            if (known := own_ns[own_ns != NONE]).size:
                means[row] = known.mean()
        return means

    def worth_showing(self, most: int) -> list[Partition]:
        """At most ``most`` processes: the slowest, the median and the fastest by own time.

        Processes without steps come last.
        """
        count = len(self.processes)
        if count <= most:
            return list(self.processes)
        slowest_first = np.argsort(-np.nan_to_num(self.mean_own_ns), kind="stable").tolist()
        with_steps = int(np.isfinite(self.mean_own_ns).sum()) or count
        few = [slowest_first[with_steps // 2], slowest_first[with_steps - 1]][: max(most - 1, 0)]
        others = [row for row in slowest_first if row not in few]
        return [self.processes[row] for row in sorted([*others[: most - len(few)], *few])]


def rank_steps(rollups: Mapping[Partition, Rollup]) -> RankSteps:
    """Steps of processes side by side, matched by their numbers."""
    tables = [rollup.table(STEPS.name) for rollup in rollups.values()]
    number = np.unique(np.concatenate([*(one["step"] for one in tables), np.zeros(0, np.int64)]))
    shape = (len(tables), len(number))
    wall_ns, own_ns = np.full(shape, NONE, dtype=np.int64), np.full(shape, NONE, dtype=np.int64)
    table_ns = np.zeros((*shape, len(Cause)), dtype=np.int64)
    cause_ns = np.zeros((len(tables), len(Cause)), dtype=np.int64)
    for row, (table, rollup) in enumerate(zip(tables, rollups.values(), strict=True)):
        column = np.searchsorted(number, table["step"])
        wall_ns[row, column], own_ns[row, column] = table["wall_ns"], table["own_ns"]
        for cause in Cause:
            table_ns[row, column, cause] = table[cause_column(cause)]
        cause_ns[row] = table_ns[row].sum(axis=0) if len(table) else rollup.causes_ns(Which.ALL)
    are = {rollup.mark.steps_are for rollup in rollups.values()} - {""}
    return RankSteps(
        processes=tuple(rollups),
        number=number.astype(np.int64),
        wall_ns=wall_ns,
        own_ns=own_ns,
        table_ns=table_ns,
        cause_ns=cause_ns,
        steps_are="; ".join(sorted(are)),
    )
