"""Tools that take NVTX ranges and ITT tasks, and write them down."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def built_in(folder: Path) -> dict[str, Path]:
    """The tools beside this file, compiled: by name the path of a library."""
    built = {}
    for name in ("nvtx_injection", "itt_collector"):
        built[name] = folder / f"{name}.so"
        compiler = os.environ.get("CXX", "c++")
        source = Path(__file__).with_name(f"{name}.cpp")
        command = [compiler, "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(built[name])]
        subprocess.run(command, check=True, timeout=300)
    return built


def nested(lines: list[str], close: str) -> list[tuple[int, str]]:
    """(depth, text) of every range, by the order of starts and ends.

    Raises:
        AssertionError: an end without a start, or the other way round.
    """
    depth, found = 0, []
    for line in lines:
        if line == close:
            depth -= 1
            assert depth >= 0, "more ends than starts"
        else:
            found.append((depth, line.partition(" ")[2]))
            depth += 1
    assert depth == 0, "every range ends"
    return found
