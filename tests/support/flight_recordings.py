"""Programs with a flight recorder, and what their dumps say."""

from __future__ import annotations

import subprocess
import textwrap
import time
from pathlib import Path

import torch

import opscope
from opscope.base.artefacts import at, is_free
from support.torch_processes import run_torch


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()


def reason_of(trace: opscope.Trace) -> str:
    return str(trace.metadata["dump"]["reason"])


def wait_until_all_are_made(directory: Path) -> None:
    """The program does not wait for long; what nobody is at any more stays."""
    until = time.monotonic() + 280
    while time.monotonic() < until and not all(map(_is_left, directory.glob(".dump-*"))):
        time.sleep(0.05)


def _is_left(spool: Path) -> bool:
    one = at(spool)
    return one is not None and is_free(one)


def dumps_in(directory: Path) -> list[opscope.Trace]:
    """All that were asked for, once they are there."""
    wait_until_all_are_made(directory)
    return [opscope.load(folder) for folder in sorted(directory.glob("*.opscope"))]


def run(
    program: str, directory: Path, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """A program of its own, which has ``directory`` as its first argument."""
    return run_torch("-c", textwrap.dedent(program), directory, *arguments, timeout=timeout)
