"""Runs tasks from its standard input one after the other, in a process of its own.

Each line is a task with its arguments; each answer is an error, or empty.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from opscope.base.memory_limit import memory_for
from opscope.errors import OpscopeError
from opscope.jobs.rollup.write import write_rollup
from opscope.jobs.saving import save_trace
from opscope.storage.chrome import load_chrome_trace
from opscope.storage.partition import Partition


def main() -> None:
    """Run tasks until the input ends."""
    # Output of libraries during their import is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        task, *about = json.loads(line)
        answers.write(json.dumps(_TASKS[task](*about)) + "\n")
        answers.flush()


def roll_up(folder: str, target: str) -> str:
    """Make the rollup of a part; returns an error, or empty."""
    part, into = Path(folder), Path(target)
    try:
        with memory_for(f"adding up {part}"):
            into.mkdir(parents=True, exist_ok=True)
            write_rollup(part, into)
    except OpscopeError as error:
        return str(error)
    except OSError as error:
        why = error.strerror or error
        if into == part:
            return f"The rollup of {part} cannot be written: {why}."
        return (
            f"The rollup of {part} cannot be written to {tempfile.gettempdir()}: {why}. Set "
            "TMPDIR to a folder with free space."
        )
    return ""


def read_chrome(file: str, folder: str, kind: str, number: str) -> str:
    """Convert a Chrome file of one process to a trace; returns an error, or empty."""
    try:
        with memory_for(f"reading {file}"):
            save_trace(load_chrome_trace(file), folder, Partition(kind, int(number)))
    except OpscopeError as error:
        return str(error)
    return ""


_TASKS: dict[str, Callable[..., str]] = {"roll_up": roll_up, "read_chrome": read_chrome}


if __name__ == "__main__":
    main()
