"""What stays open while an agent asks: traces and comparisons, by the ids that it was given."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from opscope.analysis.diff.gate import Judgement, judge, read_gate
from opscope.analysis.diff.result import Diff
from opscope.api.diff import diff
from opscope.api.job import Job
from opscope.api.load import load
from opscope.api.trace import Trace
from opscope.base.address import address_of, shown_address
from opscope.errors import UsageError
from opscope.readers.answers import Answers, answers_of, answers_of_diff, answers_of_job
from opscope.readers.decision import decision_of
from opscope.readers.quoting import quoted

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


class Session:
    """Opens what is asked for, once. Used by one thread at a time; ``lock`` sees to that."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._ids: dict[tuple[str, int | None, int | None], str] = {}
        self._open: dict[str, Held] = {}
        self._compared: dict[str, Comparison] = {}
        self._count = 0

    def open(self, path: str, rank: int | None = None, process: int | None = None) -> str:
        """The id of what is at a path: of one process, or of a job where none is chosen.

        Raises:
            OpscopeError: as :func:`opscope.load`; an address of another machine is refused.
        """
        key = (os.path.abspath(_local(path)), rank, process)
        found = self._ids.get(key)
        if found is not None and found in self._open:
            return found
        held = load(key[0], rank, process)
        about = os.path.basename(key[0].rstrip("/")) + "".join(
            f", {kind} {number}"
            for kind, number in (("rank", rank), ("process", process))
            if number is not None
        )
        made = answers_of_job if isinstance(held, Job) else answers_of
        self._count += 1
        self._ids[key] = name = f"t{self._count}"
        self._keep(name, (held, made(held, about)))  # type: ignore[arg-type]
        return name

    def held(self, trace: str) -> Held:
        """What an id or a path names."""
        if trace not in self._open:
            if trace in self._ids.values():
                raise UsageError(
                    f"{trace} was closed, because too many traces are open. Open its path again."
                )
            trace = self.open(trace)
        self._keep(trace, self._open.pop(trace))
        return self._open[trace]

    def answers(self, trace: str) -> Answers:
        """The tables of a trace, or of a comparison."""
        found = self._compared.get(trace)
        return self.held(trace)[1] if found is None else found.answers

    def compare(self, old: Sequence[str], new: Sequence[str]) -> str:
        """The id of a comparison."""
        sides = [[self._path(one) for one in side] for side in (old, new)]
        found = diff(*sides)
        about = " to ".join(", ".join(map(os.path.basename, side)) for side in sides)
        name = f"c{len(self._compared) + 1}"
        answers = answers_of_diff(found, about)
        self._compared[name] = Comparison(tuple(sides[0]), tuple(sides[1]), found, answers)
        return name

    def decide(self, comparison: str, gate: str, reason: str) -> tuple[str, list[Judgement], Path]:
        """Accept or reject the new side by a gate, and keep the decision beside its trace.

        Returns:
            ``accept``, ``reject`` or ``undecided``; what became of every condition; the file.
        """
        compared = self._compared.get(comparison)
        if compared is None:
            raise UsageError(
                f"There is no comparison {quoted(comparison, 40)}. compare(old, new) makes one."
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

    def _path(self, trace: str) -> str:
        by_id = {name: path for (path, _, _), name in self._ids.items()}
        return by_id.get(trace) or os.path.abspath(_local(trace))

    def _keep(self, name: str, held: Held) -> None:
        self._open[name] = held
        while len(self._open) > MOST_OPEN:
            self._open.pop(next(iter(self._open)))


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
