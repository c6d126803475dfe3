"""Findings about programs of tests, recorded as users record."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opscope
from opscope.analysis.findings.finding import Findings

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
    gc.disable()
    try:
        with opscope.profile(**options) as profile:
            result = program()
    finally:
        gc.enable()
    del result
    return profile.trace.findings()
