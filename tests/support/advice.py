"""Findings about programs of tests, recorded as users record."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.finding import hold_order
from tests.support.recorded import without_collections

import opscope
from opscope.findings.finding import Findings

EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}
FOR_WHY = {"record_shapes": True, "with_own_functions": True, "with_modules": True}
"""What `opscope run --why` records, and memory."""
LEVELS = (EVERYTHING, {**FOR_WHY, "profile_memory": True})


def marked_lines(file: str, text: str) -> set[int]:
    """The lines of a file that end with ``text`` as a comment."""
    lines = Path(file).read_text().splitlines()
    return {i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")}


def findings_of(program: Callable[[], object], **options: Any) -> Findings:
    result = program()  # what happens only once has happened
    gc.collect()
    with without_collections(), opscope.profile(**options) as profile:
        result = program()
    del result
    findings = profile.trace.findings()
    hold_order(findings)
    return findings


def in_some_recording(
    program: Callable[[], object],
    holds: Callable[[Findings], bool],
    level: dict[str, Any] = EVERYTHING,
) -> bool:
    """Whether ``holds`` of the findings of one of five recordings.

    What else the machine does may last longer than all of a program: then findings speak of that.
    """
    return any(holds(findings_of(program, **level)) for _ in range(5))


def is_at(pattern: str, file: str, mark: str) -> Callable[[Findings], bool]:
    """Whether a finding is there, first of all at one of the marked lines of a file."""

    def holds(findings: Findings) -> bool:
        found = {finding.id for finding in findings}
        places = findings[pattern].places if pattern in found else ()
        here = bool(places) and Path(places[0].file).name == Path(file).name
        return here and places[0].line in marked_lines(file, mark)

    return holds
