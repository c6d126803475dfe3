"""What torch.compile did in several processes: the same for the same reason is one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opscope.analysis.compiled_code import CompilationEvent
from opscope.storage.partition import Partition


@dataclass(frozen=True)
class SharedCompilation:
    """A graph break, or another compilation, of one line for one reason.

    Attributes:
        event: what it is, of the first process that has it.
        times: how often, in each process that has it, in the order of the processes.
    """

    event: CompilationEvent
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
