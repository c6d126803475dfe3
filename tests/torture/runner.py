"""Runs seeds in processes of their own: a crash or a hang is a finding with a seed, not the end."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torture.variants import Variant, variant

TESTS = Path(__file__).parents[1]
SEEDS_PER_PROCESS = 10
SHOWN = 12_000


@dataclass(frozen=True)
class Asked:
    """What to run.

    Attributes:
        first: seed.
        count: of seeds; None for as many as ``seconds`` allow.
        seconds: after which no further process begins.
        variant: of the environment, see ``variants.py``.
        without: what is left out.
        timeout_s: for one seed.
    """

    first: int
    count: int | None
    seconds: float
    variant: str = "plain"
    without: tuple[str, ...] = ()
    timeout_s: float = 120


@dataclass(frozen=True)
class Finding:
    """A seed that failed, how, and the end of what its process said."""

    seed: int
    how: str
    said: str


@dataclass
class Result:
    """What came of it."""

    seeds: int
    windows: int
    events: int
    findings: list[Finding]


def run(asked: Asked, say: Callable[[str], object] = print) -> Result:
    """Run all of it, and say how it goes."""
    result = Result(0, 0, 0, [])
    with tempfile.TemporaryDirectory() as folder:
        effects = Path(folder) / "effects.json"
        _python(variant("plain"), ["-m", "torture.effects", str(effects)], 300).check_returncode()
        for first, count in _batches(asked):
            seed, end = first, first + count
            while seed < end:
                seed = _run_batch(asked, effects, seed, end - seed, result, say)
    return result


def _batches(asked: Asked) -> Iterator[tuple[int, int]]:
    began, seed = time.monotonic(), asked.first
    while asked.count is None or seed < asked.first + asked.count:
        if asked.count is None and time.monotonic() - began > asked.seconds:
            return
        left = SEEDS_PER_PROCESS if asked.count is None else asked.first + asked.count - seed
        count = min(SEEDS_PER_PROCESS, left)
        yield seed, count
        seed += count


def _run_batch(
    asked: Asked,
    effects: Path,
    first: int,
    count: int,
    result: Result,
    say: Callable[[str], object],
) -> int:
    """Run some seeds in one process; the seed to go on with, which is after one that failed."""
    command = ["-X", "faulthandler", "-m", "torture.case", str(effects), str(first), str(count)]
    chosen = variant(asked.variant)
    for name in {*asked.without, *chosen.without}:
        command += ["--without", name]
    done = _python(chosen, command, 60 + asked.timeout_s * count)
    begun = [int(seed) for seed in re.findall(r"^seed (\d+) begins", done.stdout, re.MULTILINE)]
    for windows, events in re.findall(r"^seed \d+: (\d+) windows, (\d+) events", done.stdout, re.M):
        result.seeds += 1
        result.windows += int(windows)
        result.events += int(events)
    say(f"seeds {first} to {max(begun, default=first)}: {result.windows} windows so far")
    if done.returncode == 0:
        return first + count
    failed = max(begun, default=first)
    finding = Finding(failed, _ending(done.returncode), done.stderr[-SHOWN:])
    result.findings.append(finding)
    say(f"seed {finding.seed} FAILED: {finding.how}\n{finding.said}\n{again(asked, finding)}")
    return failed + 1


def _ending(status: int) -> str:
    if status == -signal.SIGABRT:
        return "ended by SIGABRT (a hang is ended so, with the stacks of all threads below)"
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"


def _python(
    variant: Variant, arguments: list[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        [variant.python, *arguments],
        cwd=TESTS,
        env=variant.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler says where every thread is
        try:
            stdout, stderr = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def again(asked: Asked, finding: Finding) -> str:
    """How to run one seed alone."""
    variant = "" if asked.variant == "plain" else f" VARIANT={asked.variant}"
    return f"again: make torture SEED={finding.seed} COUNT=1{variant}"
