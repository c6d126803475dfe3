"""Trying a wheel with nothing but its dependencies beside it, and no compiler to be found."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from release.running import ReleaseError, run

_PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
"""
_CHROME = {
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 20},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 30, "dur": 10},
    ]
}


@dataclass(frozen=True)
class Tried:
    """How a wheel did.

    Attributes:
        wheel: its name.
        torch: the version that was recorded with it; None where it was tried without.
        bytes: its size.
        installed_s: what pip took to install it with its dependencies, torch being there.
        until_summary_s: from there to the first summary's end, recording included.
        installed_cpu_s, until_summary_cpu_s: what processors worked for that, which tells more
            where the machine is busy.
    """

    wheel: str
    torch: str | None
    bytes: int
    installed_s: float
    until_summary_s: float
    installed_cpu_s: float
    until_summary_cpu_s: float


def try_wheel(wheel: Path, interpreter: str, torch: str | None) -> Tried:
    """Install ``wheel`` for ``interpreter`` and use it.

    Args:
        wheel: the file.
        interpreter: a Python that it is for.
        torch: the version to record with; None to do what needs none.

    Raises:
        ReleaseError: something is not as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="opscope-trial-") as temporary:
        folder = Path(temporary)
        run([interpreter, "-m", "venv", folder / "venv"])
        python = folder / "venv" / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
        if torch is not None:
            run([*pip, f"torch=={torch}"])
        began, worked = time.monotonic(), _worked_s()
        run([*pip, wheel.resolve()])
        installed, installing = time.monotonic(), _worked_s()
        _use_without_torch(folder) if torch is None else _record(folder)
        seen, seeing = time.monotonic(), _worked_s()
        _look_around(folder, torch)
        return Tried(
            wheel=wheel.name,
            torch=torch,
            bytes=wheel.stat().st_size,
            installed_s=installed - began,
            until_summary_s=seen - installed,
            installed_cpu_s=installing - worked,
            until_summary_cpu_s=seeing - installing,
        )


def _worked_s() -> float:
    """Of processors, for all programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _opscope(folder: Path, *arguments: str) -> str:
    """Run it with nothing else on the path, and a home of its own."""
    programs = folder / "venv" / "bin"
    variables = {
        "PATH": str(programs),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "CXX": "",
        "PYTHONPATH": "",
        "OPSCOPE_CACHE": "",
    }
    return run([programs / "opscope", *arguments], folder=folder, variables=variables)


def _record(folder: Path) -> None:
    (folder / "first.py").write_text(_PROGRAM)
    _opscope(folder, "run", "--output", "first.opscope", "first.py")
    _expect("aten::addmm", _opscope(folder, "summary", "first.opscope"))


def _use_without_torch(folder: Path) -> None:
    (folder / "first.json").write_text(json.dumps(_CHROME))
    _expect("aten::mm", _opscope(folder, "summary", "first.json"))


def _look_around(folder: Path, torch: str | None) -> None:
    _expect("opscope", _opscope(folder, "--version"))
    _expect("summary", _opscope(folder, "--help"))
    if torch is None:
        return
    _expect("came with opscope", _opscope(folder, "doctor"))
    compiled = list((folder / "cache").rglob("*.so"))
    if compiled:
        raise ReleaseError(f"a bridge was compiled, though one ships: {os.fspath(compiled[0])}")


def _expect(what: str, said: str) -> None:
    if what not in said:
        raise ReleaseError(f"there is no {what!r} in:\n{said}")
