"""What a user waits for at first: imports, help, `opscope run`, and views small and large."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile, temporary_path
from benchmarks.workloads import TRAINING, Unit
from opscope.api.trace import Trace
from opscope.report.page import write_report

_LARGE, _SMALL = 2_100_000, 10_000
_CPU = "s of CPU"


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Seconds of whole processes, then of views."""
    yield from _starts(rounds)
    large = max(int(_LARGE * rounds.share), _SMALL)
    for name, events, limit in (
        ("saving", _SMALL, 0.1),
        ("report", _SMALL, 0.1),
        ("findings", large, 3.0),
        ("report", large, 8.0),
    ):
        title = f"{name}, {events:,} events"
        took = rounds.in_forks(title, [name], _look, events, count=rounds.few)[name]
        yield Figure(title, TRAINING.name, _CPU, took, [0.0] * len(took), "", limit=limit)


def _starts(rounds: Rounds) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write("import torch\n")
        run = ("-m", "opscope", "run", "--output", os.path.join(folder, "trace"), script)
        numpy = ("-c", "import numpy")
        for name, ours, theirs, limit in (
            ("import numpy, opscope", ("-c", "import numpy, opscope"), numpy, 0.1),
            ("opscope --help", ("-m", "opscope", "--help"), ("-c", "pass"), 0.3),
            ("opscope run of `import torch`", run, (script,), 0.4),
        ):
            took = rounds.interleave(name, (ours, theirs), _process)
            added = [a - b for a, b in zip(took[ours], took[theirs], strict=True)]
            alone = "python alone" if theirs == (script,) else f"python {theirs[0]} alone"
            title = f"{name}, added"
            yield Figure(title, "a process", "s", added, took[theirs], alone, limit=limit)


def _process(words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - began


def _look(view: str, events: int) -> float:
    """Record so many events, look once at a few, then measure looking at all: CPU seconds."""
    unit, look = TRAINING.build(), _VIEWS[view]
    look(_record(unit, 10))
    trace = _record(unit, int(events / count_events(TRAINING, "all")) + 1)
    len(trace.events)
    began = time.process_time()
    look(trace)
    return time.process_time() - began


def _record(unit: Unit, units: int) -> Trace:
    with new_profile("opscope", "all") as profiled:
        for _ in range(units):
            unit()
    return profiled.trace


def _report(trace: Trace) -> None:
    with temporary_path("report.html") as path:
        write_report(trace, path)


def _save(trace: Trace) -> None:
    with temporary_path("trace.opscope") as path:
        trace.save(path)


_VIEWS: dict[str, Callable[[Trace], object]] = {
    "saving": _save,
    "report": _report,
    "findings": Trace.findings,
}
