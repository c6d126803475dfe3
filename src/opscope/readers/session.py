"""What stays open while an agent asks: traces and comparisons, by the ids that it was given."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.gate import Judgement, judge, read_gate
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.api.diff import side_of
from opscope.api.job import Job
from opscope.api.load import load
from opscope.api.trace import Trace
from opscope.base.address import address_of, shown_address
from opscope.errors import UsageError
from opscope.readers.answers import Answers, answers_of, answers_of_diff, answers_of_job
from opscope.readers.decision import decision_of

MOST_OPEN = 8
"""Traces; the one that was used least recently is closed for another."""

DECISIONS = "opscope-decisions.jsonl"
"""In the folder that the new trace lies in: a line for each decision."""

Held = tuple[Trace | Job, Answers]


@dataclass(frozen=True)
class Comparison:
    """Two sides, and what is different."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    found: Diff
    answers: Answers


@dataclass(frozen=True)
class _Source:
    """Path and part that were opened, and the version of the files at that time."""

    path: str
    rank: int | None
    process: int | None
    version: object

    def read(self) -> Held:
        held = load(self.path, self.rank, self.process)
        about = os.path.basename(self.path.rstrip("/")) + "".join(
            f", {kind} {number}"
            for kind, number in (("rank", self.rank), ("process", self.process))
            if number is not None
        )
        if isinstance(held, Job):
            return held, answers_of_job(held, about)
        return held, answers_of(held, about)


class Session:
    """Opens what is asked for, once. Used by one thread at a time; ``lock`` sees to that."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._open: dict[str, Held] = {}
        self._compared: dict[str, Comparison] = {}

    def open(self, path: str, rank: int | None = None, process: int | None = None) -> str:
        """The id of what is at a path, or an id that was given: of one process, or of a job where
        none is chosen.

        A trace that was replaced has a new id; the old one is of what was there before.

        Raises:
            OpscopeError: as :func:`opscope.load`; an address of another machine is refused.
        """
        if path in self._sources:
            return path
        local = os.path.abspath(_local(path))
        source = _Source(local, rank, process, _version(local))
        found = next((name for name, one in self._sources.items() if one == source), None)
        if found is None:
            held, found = source.read(), f"t{len(self._sources) + 1}"
            self._sources[found] = source
            self._keep(found, held)
        return found

    def held(self, trace: str) -> Held:
        """The trace or job of an id or a path."""
        name = self.open(trace)
        held = self._open.pop(name, None)
        if held is None:
            source = self._sources[name]
            if _version(source.path) != source.version:
                raise UsageError(
                    f"{name} was closed, because too many traces are open, and {source.path} has "
                    "changed since. Open that path again."
                )
            held = source.read()
        self._keep(name, held)
        return held

    def one(self, trace: str) -> tuple[Trace, Answers]:
        """The trace of an id or a path; jobs are refused."""
        held, answers = self.held(trace)
        if isinstance(held, Job):
            raise UsageError("This is a job of several processes. open(trace, rank=N) gives one.")
        return held, answers

    def answers(self, trace: str) -> Answers:
        """The tables of a trace, or of a comparison."""
        found = self._compared.get(trace)
        return self.held(trace)[1] if found is None else found.answers

    def compare(self, old: Sequence[str], new: Sequence[str]) -> str:
        """The id of a comparison."""
        (before, before_paths), (after, after_paths) = self._side(old), self._side(new)
        found = compare(before, after)
        name = f"c{len(self._compared) + 1}"
        about = " to ".join(", ".join(side.names) for side in (before, after))
        answers = answers_of_diff(found, about)
        self._compared[name] = Comparison(before_paths, after_paths, found, answers)
        return name

    def _side(self, traces: Sequence[str]) -> tuple[Side, tuple[str, ...]]:
        """The traces with names that tell them apart, and their paths."""
        ids = [self.open(one) for one in traces]
        paths = tuple(self._sources[one].path for one in ids)
        names = [f"{os.path.basename(path)} ({one})" for one, path in zip(ids, paths, strict=True)]
        return side_of([self.one(one)[0] for one in ids], names), paths

    def decide(self, comparison: str, gate: str, reason: str) -> tuple[str, list[Judgement], Path]:
        """Accept or reject the new side by a gate, and keep the decision beside its trace.

        Returns:
            ``accept``, ``reject`` or ``undecided``; what became of every condition; the file.
        """
        compared = self._compared.get(comparison)
        if compared is None:
            raise UsageError(
                f"There is no comparison {comparison[:40]!r}. compare(old, new) makes one."
            )
        judged = judge(compared.found, read_gate(gate))
        decision = decision_of(one.outcome for one in judged).value
        step = compared.found.step
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "decision": decision,
            "reason": reason[:1000],
            "old": compared.old,
            "new": compared.new,
            "gate": [{**asdict(one.condition), "outcome": one.outcome, "why": one.why}
                     for one in judged],
            "step": None if step is None else step.as_dict(),
        }  # fmt: skip
        file = Path(compared.new[0]).parent / DECISIONS
        _append(file, json.dumps(line))
        return decision, judged, file

    def _keep(self, name: str, held: Held) -> None:
        self._open[name] = held
        while len(self._open) > MOST_OPEN:
            self._open.pop(next(iter(self._open)))


def _version(path: str) -> object:
    """Another for what was written there anew; None where there is nothing."""
    try:
        entries = sorted(os.scandir(path), key=lambda one: one.name) if os.path.isdir(path) else []
        return [_identity(os.stat(path)), *((one.name, _identity(one.stat())) for one in entries)]
    except OSError:
        return None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _local(path: str) -> str:
    """A path; a trace may name addresses, and reading one tells its owner that it was read."""
    if (address := address_of(path)) is not None:
        raise UsageError(
            f"{shown_address(address)} is on another machine, and agents open local traces alone. "
            "Copy it here first."
        )
    return path


def _append(file: Path, line: str) -> None:
    """Follows no link: the folder may be somebody else's."""
    try:
        number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        with os.fdopen(number, "a", encoding="utf-8") as opened:
            opened.write(line + "\n")
    except OSError as error:
        raise UsageError(
            f"The decision cannot be kept in {file} ({error.strerror}). Copy the trace to a folder "
            "of yours."
        ) from error
