"""What came of a run, as far as its program decides it, and how two runs differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

_CHANGES_FROM_RUN_TO_RUN = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{12,}\b|\d+(\.\d+)?(e[+-]?\d+)?")
"""Addresses, times, identifiers of processes."""
_ANSWER_BEGINS, _ANSWER_ENDS = "opscope: verdict:", "opscope: look closer"
"""Between these lines ``--why`` prints findings, each over several lines."""
_OF_TORCHS_PROFILER = re.compile(r"USDT:|\[W# #:#:# (collection|profiler_kineto)\.cpp")
"""What torch's profiler says of itself: not where opscope's takes its place."""


@dataclass
class Outcome:
    """How a program or a test suite ended."""

    exit_code: int
    tests: dict[str, str] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)
    """Lines of standard output; of a test suite those of its summary of warnings."""
    complained: Counter[str] = field(default_factory=Counter)
    """Lines of standard error but opscope's."""


def outcome_of(exit_code: int, output: str, errors: str, tests: Path) -> Outcome:
    """Read what a run left; `tests` is pytest's file, where there is one."""
    lines = output.splitlines()
    # Of a program numbers and all: what it computes is the same.
    said = map(_comparable, _warnings(lines)) if tests.exists() else lines
    return Outcome(
        exit_code,
        _ends_of_tests(tests) if tests.exists() else {},
        Counter(said),
        Counter(map(_comparable, _without_ours(errors.splitlines()))),
    )


def differences(plain: Outcome, recorded: Outcome) -> list[str]:
    """What the program could tell by, a line each."""
    found = []
    if plain.exit_code != recorded.exit_code:
        found.append(f"exit code {plain.exit_code}, recorded {recorded.exit_code}")
    for test in sorted(plain.tests.keys() | recorded.tests.keys()):
        ends = plain.tests.get(test, "not run"), recorded.tests.get(test, "not run")
        if ends[0] != ends[1]:
            found.append(f"test {test}: {ends[0]}, recorded {ends[1]}")
    for name in ("said", "complained"):
        alone, beside = getattr(plain, name), getattr(recorded, name)
        missing = (line for line in alone - beside if not _OF_TORCHS_PROFILER.match(line))
        found += [f"{name} plain only: {line}" for line in missing]
        found += [f"{name} recorded only: {line}" for line in beside - alone]
    return found


def _ends_of_tests(path: Path) -> dict[str, str]:
    ends = {}
    for case in ElementTree.parse(path).iter("testcase"):
        problems = [child for child in case if child.tag in ("failure", "error", "skipped")]
        end = " ".join(f"{one.tag} {one.get('message', '')}" for one in problems) or "passed"
        ends[f"{case.get('classname')}.{case.get('name')}"] = _comparable(end)[:300]
    return ends


def _warnings(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if line.startswith(("====", "-- Docs:")):
            inside = "warnings summary" in line
        elif inside:
            yield line


def _without_ours(lines: list[str]) -> Iterator[str]:
    answering = False
    for line in lines:
        answering = (answering or line.startswith(_ANSWER_BEGINS)) and not line.startswith(
            _ANSWER_ENDS
        )
        if not answering and not line.startswith("opscope:"):
            yield line


def _comparable(line: str) -> str:
    return _CHANGES_FROM_RUN_TO_RUN.sub("#", line.strip())
