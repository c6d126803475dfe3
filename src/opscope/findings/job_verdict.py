"""Findings of several processes, merged by pattern and place, and the verdict on a job.

The verdict names the straggler, else the problem of one process.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from opscope.base.shown_result import ShownResult
from opscope.columns.causes import Cause
from opscope.findings.finding import Finding, Findings
from opscope.findings.status import Status
from opscope.findings.verdict import SLOW, Verdict
from opscope.storage.partition import Partition


@dataclass(frozen=True)
class SharedFinding(ShownResult):
    """One pattern at one place, in one process or more.

    Attributes:
        by_process: the finding of each process, in the order of the processes.
    """

    by_process: Mapping[Partition, Finding]

    @property
    def processes(self) -> list[Partition]:
        """The processes that have it."""
        return list(self.by_process)

    @property
    def most(self) -> tuple[Partition, Finding]:
        """The process with the largest saving, and its finding."""
        return max(self.by_process.items(), key=lambda one: one[1].weight)

    @property
    def middle_share(self) -> float | None:
        """Share of the time that the fix saves, the median over the processes; None: unknown."""
        shares = [one.saved_share for one in self.by_process.values()]
        known = [share for share in shares if share is not None]
        return statistics.median(known) if known else None


def shared_findings(found: Mapping[Partition, Findings]) -> list[SharedFinding]:
    """Findings of all processes, the largest weight in any process first."""
    together: dict[tuple[str, str], dict[Partition, Finding]] = {}
    for process, findings in found.items():
        for finding in findings:
            place = str(finding.places[0]) if finding.places else ""
            same = together.setdefault((finding.id, place), {})
            same.setdefault(process, finding)
    result = [SharedFinding(by_process) for by_process in together.values()]
    return sorted(result, key=lambda one: -one.most[1].weight)


class Straggler(Protocol):
    """A slow rank as a verdict needs it; :class:`opscope.jobs.slow_ranks.SlowRank` is one."""

    @property
    def process(self) -> Partition:
        """The rank's process."""

    @property
    def cause(self) -> Cause:
        """Why it is slow."""

    @property
    def gain_ns(self) -> float:
        """Time by which a step would shorten if the rank were as fast as the others."""

    @property
    def step_ns(self) -> float:
        """Duration of a step of the job."""


def job_verdict(
    stragglers: Sequence[Straggler], of_one: Callable[[], Verdict], name: str
) -> Verdict:
    """The verdict on several ranks; on the process called ``name`` if no rank is slow."""
    worth = [one for one in stragglers if one.gain_ns >= SLOW * max(one.step_ns, 1)]
    if worth:
        return _of_straggler(worth[0], len(stragglers) - 1)
    one = of_one()
    return replace(one, about=f"{one.about} of {name}", next="opscope why")


def _of_straggler(slow: Straggler, others: int) -> Verdict:
    share = slow.gain_ns / max(slow.step_ns, 1)
    waits = slow.cause is Cause.DESCHEDULED
    fix = f"details of {slow.process}: opscope why {slow.process.option}"
    if slow.cause is Cause.OPERATOR:
        fix = f"give all ranks equally long inputs, or check the device; {fix}"
    others_have_it = f"{slow.process} waits for a CPU, which runs other threads"
    return Verdict(
        status=Status.BUSY if waits else Status.STRAGGLER,
        unsure=(others_have_it,) if waits else (),
        title=str(slow).rstrip("."),
        share=share,
        fix=fix,
        gain_ns=round(slow.gain_ns),
        gain_share=share,
        step_ns=round(slow.step_ns),
        wall_ns=round(slow.step_ns),
        about="mean step of the job",
        others=others,
        next="opscope ranks",
        evidence=("stragglers", slow.cause.name.lower()),
    )
