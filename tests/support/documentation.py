"""The programs and commands in a page of the documentation, and running them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from support.gloo_jobs import ABORTED, ATTEMPTS, run_ranks
from support.processes import opscope_here
from support.torch_processes import run_torch

COLUMNS = "100"
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it is to be written to (or ""), its text."""

    language: str
    title: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """In order."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(*parts) for parts in found]


def commands_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines that the page shows of its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def run_command(command: str, folder: Path) -> str:
    """Standard output and error of a shell command, in the environment of these tests.

    Raises:
        AssertionError: it fails.
    """
    name, *arguments = shlex.split(command)
    needs_shell = {"<", ">", "2>", "|", "||"} & set(arguments)
    if name == "opscope" and arguments[0] not in ("run", "doctor") and not needs_shell:
        return _run_here(arguments)
    if name == "torchrun":  # --nproc-per-node N PROGRAM; each of its ranks would import torch
        return run_ranks(Path(folder, arguments[2]), int(arguments[1])).stdout
    added = {"COLUMNS": COLUMNS, "OMP_NUM_THREADS": "1"}
    # What another program compiled has that one's lines.
    added["TORCHINDUCTOR_CACHE_DIR"] = os.fspath(Path(folder) / ".inductor")
    for _ in range(ATTEMPTS):
        if not needs_shell:
            start = arguments if name == "python" else ["-m", name, *arguments]
            done = run_torch(*start, added=added, cwd=folder)
        else:
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=folder,
                env={**os.environ, "PATH": path, **added},
                capture_output=True,
                text=True,
            )
        printed = done.stdout + done.stderr
        if done.returncode == 0 or ABORTED not in printed:
            break
    assert done.returncode == 0, f"{command}\n{printed}"
    return printed


def _run_here(arguments: list[str]) -> str:
    """The same in this process, which saves the time that importing everything takes."""
    with mock.patch.dict(os.environ, COLUMNS=COLUMNS):
        done = opscope_here(*arguments)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{arguments}\n{printed}"
    return printed
