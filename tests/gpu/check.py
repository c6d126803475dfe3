"""``make gpu-check``: does opscope work on this machine's GPU? What is wrong is printed first.

Runs with the torch and packages of the Python that runs it, and needs no network: looks whether
everything is there, builds opscope beside it, compares what is recorded with torch.profiler's
(``tests/gpu``), measures (``benchmarks/gpu.py``). It ends within eight minutes: a part that
does not is stopped and said to be wrong. All figures are in one file of JSON, whatever happened.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_S = 470
_ALL_WELL = "Nothing is wrong."
_BUILT = ROOT / "build" / "gpu-check"
_PACKAGES = (
    "torch", "numpy", "nanobind", "scikit_build_core", "pyarrow", "rich", "pytest",
)  # fmt: skip
_PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
_SEES = """
import json, torch
there = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "device": torch.cuda.get_device_name() if there else None,
}))
"""


@dataclass
class Findings:
    """What a check found.

    Attributes:
        wrong: in words, most fundamental first.
        figures: by name, for the file.
        parts: seconds that each took.
        outputs: all that each printed.
        is_rehearsal: all ran on the CPU, which says nothing of a GPU.
    """

    wrong: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    is_rehearsal: bool = False

    def as_text(self) -> str:
        """What is wrong, then the figures."""
        well = "Rehearsed on the CPU: no GPU was checked." if self.is_rehearsal else _ALL_WELL
        lines = [f"WRONG: {one}" for one in self.wrong] or [well]
        for name, value in self.figures.items():
            if isinstance(value, dict):
                lines += [f"{name}: {key}: {json.dumps(one)}" for key, one in value.items()]
            else:
                lines.append(f"{name}: {value}")
        return "\n".join([*lines, *(f"{name} took {s:.0f} s" for name, s in self.parts.items())])


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit status, None if it was stopped; and all that it printed."""

    code: int | None
    output: str


Run = Callable[[list[str], float], Ended]


def run_program(command: list[str], limit_s: float) -> Ended:
    """Run a program, with all that it starts, until it ends or ``limit_s`` are over."""
    path = os.pathsep.join([str(_BUILT), str(ROOT)])
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PIP_NO_INDEX": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=max(limit_s, 1))
        return Ended(process.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return Ended(None, output or "")


def check(run: Run, figures_of: Path, limit_s: float = LIMIT_S, device: str = "cuda") -> Findings:
    """Look, build, compare and measure; what makes no sense any more is left out.

    Args:
        run: runs a program.
        figures_of: where the measuring part writes its figures.
        limit_s: for all of it.
        device: ``cpu`` rehearses it where there is no GPU.
    """
    found, end = Findings(is_rehearsal=device == "cpu"), time.monotonic() + limit_s

    def part(name: str, command: list[str], share: float) -> Ended:
        begun = time.monotonic()
        ended = run(command, (end - begun) * share)
        found.parts[name] = time.monotonic() - begun
        found.outputs[name] = ended.output
        if ended.code is None:
            found.wrong.append(f"{name} was stopped after {found.parts[name]:.0f} s")
        return ended

    found.wrong += _missing()
    if found.wrong:
        return found
    seen = part("looking for a GPU", [sys.executable, "-c", _SEES], 0.2)
    if not _sees(seen, found, device):
        return found
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    built = part(
        "building",
        [*pip, "--no-build-isolation", "--no-deps", "--upgrade", "--target", str(_BUILT), "."],
        0.6,
    )
    if built.code != 0:
        found.wrong.append(f"opscope does not build here: {_last_line(built.output)}")
        return found
    hung = "faulthandler_timeout=60"  # says where, and goes on
    tests = [*_PYTEST, "-o", hung, "-q", "-rfE", "--durations=5", "tests/gpu"]
    found.wrong += _failures(part("comparing with torch.profiler", tests, 0.5), device)
    measure = [sys.executable, "-m", "benchmarks.gpu", "--device", device, "--json"]
    measured = part("measuring", [*measure, str(figures_of)], 1.0)
    if measured.code not in (0, None) and not figures_of.exists():
        found.wrong.append(f"measuring failed: {_last_line(measured.output)}")
    if figures_of.exists():
        told = json.loads(figures_of.read_text())
        found.wrong += told.pop("wrong", [])
        found.figures |= told
    return found


def _missing() -> list[str]:
    lacking = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    wrong = []
    if lacking:
        names = ", ".join(lacking)
        wrong.append(f"{sys.executable} lacks {names}: choose another with make PYTHON=...")
    if shutil.which("cmake") is None and importlib.util.find_spec("cmake") is None:
        wrong.append("there is no cmake")
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        wrong.append("there is no C++ compiler")
    return wrong


def _sees(seen: Ended, found: Findings, device: str) -> bool:
    lines = [line for line in seen.output.splitlines() if line.startswith("{")]
    if seen.code != 0 or not lines:
        found.wrong.append(f"torch cannot be imported: {_last_line(seen.output)}")
        return False
    about = json.loads(lines[-1])
    found.figures |= about
    if about["device"] is None and device == "cuda":
        built = f"is built for CUDA {about['cuda']}" if about["cuda"] else "is built without CUDA"
        found.wrong.append(
            f"torch sees no GPU here (torch {about['torch']} {built}): nothing was checked. Run "
            "this on a machine with an NVIDIA GPU"
        )
        return False
    return True


def _failures(tested: Ended, device: str) -> list[str]:
    if tested.code is None:
        return []
    failed = [line for line in tested.output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if tested.code != 0 and not failed:
        failed = [f"the tests did not run: {_last_line(tested.output)}"]
    if device == "cuda" and tested.code == 0 and " passed" not in tested.output:
        failed = ["no test ran"]
    return failed


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def main() -> int:
    """Check this machine; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "gpu-check.json")
    parser.add_argument("--rehearse", action="store_true", help="all of it on the CPU")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    measured = options.output.with_suffix(".measured")
    measured.unlink(missing_ok=True)
    shutil.rmtree(_BUILT, ignore_errors=True)
    found = check(run_program, measured, device="cpu" if options.rehearse else "cuda")
    measured.unlink(missing_ok=True)
    content = {"wrong": found.wrong, "figures": found.figures, "seconds": found.parts}
    options.output.write_text(json.dumps(content, indent=2) + "\n")
    log = options.output.with_suffix(".log")
    log.write_text("".join(f"== {name}\n{text}\n" for name, text in found.outputs.items()))
    print(found.as_text())
    print(f"All of this is in {os.path.relpath(options.output)}, what was printed in {log.name}")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
