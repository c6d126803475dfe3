"""Open traces and comparisons of an agent's session, by id."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.gate import Judgement, decision_of, judge, read_gate
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.api.diff import side_of
from opscope.api.job import Job
from opscope.api.load import load
from opscope.api.trace import Trace
from opscope.base.address import address_of, shown_address
from opscope.base.files import open_inside
from opscope.errors import UsageError
from opscope.readers.answers import Answers, answers_of, answers_of_diff, answers_of_job

MOST_OPEN = 8
"""Traces in memory; opening one more closes the least recently used one."""

DECISIONS = "opscope-decisions.jsonl"
"""File beside the new trace, with one line for each decision."""

Held = tuple[Trace | Job, Answers]


@dataclass(frozen=True)
class Comparison:
    """A comparison of two versions."""

    old: tuple[str, ...]  # paths of traces
    new: tuple[str, ...]  # paths of traces
    found: Diff
    answers: Answers


@dataclass(frozen=True)
class _Source:
    """Path and process of an opened trace, and the version of its files at that time."""

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
    """Opens each trace once. Not thread-safe: callers hold ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._open: dict[str, Held] = {}
        self._compared: dict[str, Comparison] = {}

    def open(self, path: str, rank: int | None = None, process: int | None = None) -> str:
        """Open the trace or job at a path, or return a known id unchanged; returns the id.

        Files that were replaced get a new id; the old id remains that of the old trace.

        Raises:
            OpscopeError: as :func:`opscope.load`; URLs are refused.
        """
        if path in self._sources:
            return path
        local = os.path.abspath(_local(path))
        source = _Source(local, rank, process, _version(local))
        known_id = next((name for name, one in self._sources.items() if one == source), None)
        if known_id is None:
            held, known_id = source.read(), f"t{len(self._sources) + 1}"
            self._sources[known_id] = source
            self._keep(known_id, held)
        return known_id

    def held(self, trace: str) -> Held:
        """The trace or job of an id or a path; reads it again if it was closed."""
        name = self.open(trace)
        held = self._open.pop(name, None)
        if held is None:
            source = self._sources[name]
            if _version(source.path) != source.version:
                raise UsageError(
                    f"{name} was closed, because too many traces were open, and {source.path} has "
                    "changed since. Open that path again."
                )
            held = source.read()
        self._keep(name, held)
        return held

    def one(self, trace: str) -> tuple[Trace, Answers]:
        """The trace of an id or a path; jobs are refused."""
        held, answers = self.held(trace)
        if isinstance(held, Job):
            raise UsageError("This is a job of several processes. Open one: open(trace, rank=N).")
        return held, answers

    def answers(self, trace: str) -> Answers:
        """The tables of a trace, or of a comparison."""
        comparison = self._compared.get(trace)
        return self.held(trace)[1] if comparison is None else comparison.answers

    def compare(self, old: Sequence[str], new: Sequence[str]) -> str:
        """Compare traces; returns the id of the comparison."""
        (before, before_paths), (after, after_paths) = self._side(old), self._side(new)
        found = compare(before, after)
        name = f"c{len(self._compared) + 1}"
        about = " to ".join(", ".join(side.names) for side in (before, after))
        answers = answers_of_diff(found, about)
        self._compared[name] = Comparison(before_paths, after_paths, found, answers)
        return name

    def _side(self, traces: Sequence[str]) -> tuple[Side, tuple[str, ...]]:
        """The traces with unique names, and their paths."""
        ids = [self.open(one) for one in traces]
        paths = tuple(self._sources[one].path for one in ids)
        names = [f"{os.path.basename(path)} ({one})" for one, path in zip(ids, paths, strict=True)]
        return side_of([self.one(one)[0] for one in ids], names), paths

    def decide(self, comparison: str, gate: str, reason: str) -> tuple[str, list[Judgement], Path]:
        """Accept or reject the new side by a gate, and store the decision beside its trace.

        Returns:
            ``accept``, ``reject`` or ``undecided``; the result of each condition; the file.
        """
        compared = self._compared.get(comparison)
        if compared is None:
            raise UsageError(
                f"There is no comparison {comparison[:40]!r}. Make one with compare(old, new)."
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

    def _keep(self, name: str, opened: Held) -> None:
        self._open[name] = opened
        while len(self._open) > MOST_OPEN:
            self._open.pop(next(iter(self._open)))


def _version(path: str) -> object:
    """Identity of the files at a path, which changes when they are replaced; None without files."""
    try:
        entries = sorted(os.scandir(path), key=lambda one: one.name) if os.path.isdir(path) else []
        return [_identity(os.stat(path)), *((one.name, _identity(one.stat())) for one in entries)]
    except OSError:
        return None


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _local(path: str) -> str:
    # Names in a hostile trace may be URLs, and opening one would send a request to its owner.
    if (address := address_of(path)) is not None:
        raise UsageError(
            f"{shown_address(address)} is on another machine, but agents can open only local "
            "traces. Copy it to this machine first."
        )
    return path


def _append(file: Path, line: str) -> None:
    # Another user may have made the folder, with links and pipes in it.
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = open_inside(file.parent, file.name, flags)
        with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    except OSError as error:
        raise UsageError(
            f"The decision cannot be written to {file} ({error.strerror}). Copy the trace to a "
            "writable folder."
        ) from error
