"""Findings about several processes: what is found in more than one is one thing to change."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opscope.analysis.compiled_code import CompilationEvent
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


@dataclass(frozen=True)
class SharedCompilation:
    """A graph break, or another compilation, of one line for one reason."""

    event: CompilationEvent  # what it is, of the first process that has it
    # how often, in each process that has it, in the order of the processes
    times: Mapping[Partition, int]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: plain values."""
        event = self.event
        said = {name: getattr(event, name) for name in ("function", "file", "line", "reason")}
        times = [{part.kind: part.number, "times": count} for part, count in self.times.items()]
        return {**said, "processes": times}


def shared_compilations(
    events: Mapping[Partition, Iterable[CompilationEvent]],
) -> list[SharedCompilation]:
    """Those of all processes, what happened most often first."""
    first: dict[tuple[str, str, int, str], CompilationEvent] = {}
    times: dict[tuple[str, str, int, str], dict[Partition, int]] = {}
    for part, own in events.items():
        for event in own:
            same = (event.function, event.file, event.line, event.reason)
            first.setdefault(same, event)
            counts = times.setdefault(same, {})
            counts[part] = counts.get(part, 0) + 1
    found = [SharedCompilation(first[same], counts) for same, counts in times.items()]
    return sorted(found, key=lambda one: -sum(one.times.values()))
