"""What came of a run, as far as its program decides it, and how two runs differ."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

_CHANGES_FROM_RUN_TO_RUN = re.compile(
    r"0x[0-9a-f]+|\b[0-9a-f]{12,}\b|\d+(\.\d+)?(e[+-]?\d+)?|[\u2588-\u258f]+ *(?=\|)"
)
"""Addresses, times, identifiers of processes."""
_RANDOM_NAME = re.compile(r"\b(tmp|pymp-)[a-z0-9_]{8}\b|[a-z0-9_]{8}(?=\.py$)")
"""Of temporary files and folders."""
_OF_TORCHS_PROFILER = re.compile(r"USDT:|\[W# #:#:# (collection|profiler_kineto)\.cpp")
"""What torch's profiler says of itself: not where opscope's takes its place."""
_OPEN_WHILE_RECORDED = re.compile(
    r"/proc/#/task/#/(schedstat|stat|syscall)|(/trace|/dev/shm)/\.(recording|ring)-|socket:\[#\]"
)
"""Descriptors of opscope's: counters of the kernel, the recording, the watchdog process."""
OPERATOR = "operator"
"""A difference in how often one ran is about this and its name."""


@dataclass
class Outcome:
    """How a program or a test suite ended."""

    exit_code: int
    seconds: float
    tests: dict[str, str] = field(default_factory=dict)
    lists: dict[str, Counter[str]] = field(default_factory=dict)
    """Lines of output (of a test suite its warnings), threads, descriptors, files, by what they
    are."""
    operators: dict[str, int] = field(default_factory=dict)
    """By the counter that shares nothing with opscope."""
    recorded: dict[str, int] | None = None
    """Operators by the trace."""


def outcome_of(
    exit_code: int,
    folder: Path,
    homes: Iterable[Path],
    seconds: float,
    recorded: dict[str, int] | None,
) -> Outcome:
    """Read what a run left in its folder, and which files there are in `homes`."""
    tests = folder / "tests.xml"
    lines = (folder / "output").read_text(errors="replace").splitlines()
    errors = (folder / "errors").read_text(errors="replace").splitlines()
    try:
        seen = json.loads((folder / "seen.json").read_text())
    except OSError:
        seen = {"operators": {}, "threads": [], "descriptors": []}
    files = (str(path.relative_to(home)) for home in homes for path in home.rglob("*"))
    # Of a program numbers and all: what it computes is the same.
    said = map(_comparable, _warnings(lines)) if tests.exists() else lines
    return Outcome(
        exit_code,
        seconds,
        _ends_of_tests(tests) if tests.exists() else {},
        {
            "output": Counter(said),
            "errors": Counter(_comparable(e) for e in errors if not e.startswith("opscope:")),
            "threads": Counter(map(_comparable, seen["threads"])),
            "descriptors": Counter(
                _comparable(d.replace(str(folder), "")) for d in seen["descriptors"]
            ),
            "files": Counter(map(_comparable, files)),
        },
        seen["operators"],
        recorded,
    )


def differences(plain: Outcome, other: Outcome) -> dict[str, str]:
    """What the program could tell by and what its trace lacks, by what it is about."""
    found: dict[str, str] = {}
    if plain.exit_code != other.exit_code:
        found["exit code"] = f"{plain.exit_code}, recorded {other.exit_code}"
    found |= _unequal("test", plain.tests, other.tests, "not run")
    found |= _unequal(OPERATOR, plain.operators, other.operators, 0)
    if other.recorded is not None:
        found |= _unequal("in the trace:", other.operators, other.recorded, 0)
    for name, alone in plain.lists.items():
        beside = other.lists[name]
        missing = (line for line in alone - beside if not _OF_TORCHS_PROFILER.match(line))
        found |= {f"{name}: {line}": "plain only" for line in missing}
        more = (line for line in beside - alone if not _is_opscopes(name, line))
        found |= {f"{name}: {line}": "recorded only" for line in more}
    return found


def _is_opscopes(what: str, line: str) -> bool:
    return what == "descriptors" and _OPEN_WHILE_RECORDED.match(line) is not None


def _unequal(
    what: str, plain: Mapping[str, object], other: Mapping[str, object], without: object
) -> dict[str, str]:
    ends = {n: (plain.get(n, without), other.get(n, without)) for n in {*plain, *other}}
    return {f"{what} {n}": f"{a}, recorded {b}" for n, (a, b) in sorted(ends.items()) if a != b}


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


def _comparable(line: str) -> str:
    return _CHANGES_FROM_RUN_TO_RUN.sub("#", _RANDOM_NAME.sub("#", line.strip()))
