"""Findings about several processes: what is found in more than one is one thing to change."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from opscope.findings.finding import Finding, Findings
from opscope.storage.partition import Partition


@dataclass(frozen=True)
class SharedFinding:
    """One pattern at one place, in one process or more.

    Attributes:
        by_process: what it is in each, in the order of the processes.
    """

    by_process: Mapping[Partition, Finding]

    @property
    def processes(self) -> list[Partition]:
        """In which it was found."""
        return list(self.by_process)

    @property
    def most(self) -> tuple[Partition, Finding]:
        """Where it weighs most, and what it is there."""
        return max(self.by_process.items(), key=lambda one: one[1].weight)

    @property
    def middle_share(self) -> float | None:
        """Of the time, what the fix saves in the middle one of them; None: unknown in all."""
        shares = [one.saved_share for one in self.by_process.values()]
        known = [share for share in shares if share is not None]
        return statistics.median(known) if known else None


def shared_findings(found: Mapping[Partition, Findings]) -> list[SharedFinding]:
    """Of all processes, those that weigh most anywhere first."""
    together: dict[tuple[str, str], dict[Partition, Finding]] = {}
    for process, findings in found.items():
        for finding in findings:
            place = str(finding.places[0]) if finding.places else ""
            same = together.setdefault((finding.id, place), {})
            same.setdefault(process, finding)
    result = [SharedFinding(by_process) for by_process in together.values()]
    return sorted(result, key=lambda one: -one.most[1].weight)
