"""What a user waits for at first: imports, help, `opscope run`, and views small and large."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import opscope
from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile, temporary_path
from benchmarks.workloads import TRAINING, Unit
from opscope.api.trace import Trace

_LARGE, _SMALL = 2_100_000, 10_000
_NAMES = 100_000
_GROWTH = (100_000, 10_000_000)
_MOST_GROWTH = 1.2

Look = Callable[[Trace, str], object]


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Seconds of whole processes, then of views; CPU time where it says so."""
    yield from _starts(rounds)
    yield _many_names(rounds)
    for events, views in ((_SMALL, _SMALL_VIEWS), (_LARGE, _LARGE_VIEWS)):
        count = events if events == _SMALL else max(int(events * rounds.share), _SMALL)
        for name, look, unit, limit in views:
            variants = {
                "opscope": lambda look=look, count=count: in_fork(_look, look, count, "all")
            }
            took = rounds.interleave(f"{name}, {count:,} events", variants, rounds.few)["opscope"]
            nothing = [0.0] * len(took)
            title = f"{name}, {count:,} events"
            yield Figure(title, "training loop", unit, took, nothing, "", limit=limit)
    for name, look in _GROWING:
        yield _growth(name, look, rounds)


def _starts(rounds: Rounds) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write("import torch\n")
        run = ["-m", "opscope", "run", "--output", os.path.join(folder, "trace"), script]
        for name, ours, theirs, limit in (
            ("import numpy, opscope", ["-c", "import numpy, opscope"], ["-c", "import numpy"], 0.1),
            ("opscope --help", ["-m", "opscope", "--help"], ["-c", "pass"], 0.3),
            ("opscope run of `import torch`", run, [script], 0.4),
        ):
            variants = {"ours": lambda w=ours: _process(w), "theirs": lambda w=theirs: _process(w)}
            took = rounds.interleave(name, variants)
            added = [a - b for a, b in zip(took["ours"], took["theirs"], strict=True)]
            alone = f"python {theirs[0]} alone" if theirs[0] != script else "python alone"
            yield Figure(
                f"{name}, added", "a process", "s", added, took["theirs"], alone, limit=limit
            )


def _process(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - began


def _many_names(rounds: Rounds) -> Figure:
    count = int(_NAMES * rounds.share)
    took = rounds.interleave("names", {"opscope": lambda: in_fork(_table_of_names, count)})[
        "opscope"
    ]
    name = f"table(row_limit=10) of {count:,} names"
    return Figure(name, "annotations", "s", took, [0.0] * len(took), "", limit=0.5)


def _table_of_names(count: int) -> float:
    with opscope.profile() as profiled:
        for number in range(count):
            with opscope.record_function(f"name {number}"):
                pass
    len(profiled.trace.events)
    began = time.perf_counter()
    profiled.key_averages().table(row_limit=10)
    return time.perf_counter() - began


def _growth(name: str, look: Look, rounds: Rounds) -> Figure:
    small, large = _GROWTH[0], int(_GROWTH[1] * rounds.share)
    variants = {
        str(events): lambda events=events: in_fork(_look, look, events, "default") / events * 1e9
        for events in (small, large)
    }
    took = rounds.interleave(f"{name}, growth", variants, rounds.few)
    return Figure(
        f"{name}, {large:,} events",
        "training loop",
        "ns/event of CPU",
        took[str(large)],
        took[str(small)],
        f"of {small:,} events",
        target=_MOST_GROWTH,
    )


def _look(look: Look, events: int, setting: str) -> float:
    """Record so many events, look once at a few, then measure looking at all: CPU seconds."""
    unit = TRAINING.build()
    look(_record(unit, 10, setting), "warm")
    trace = _record(unit, int(events / count_events(TRAINING, setting)) + 1, setting)
    len(trace.events)
    began = time.process_time()
    look(trace, "measured")
    return time.process_time() - began


def _record(unit: Unit, units: int, setting: str) -> Trace:
    with new_profile("opscope", setting) as profiled:
        for _ in range(units):
            unit()
    return profiled.trace


def _report(trace: Trace, name: str) -> None:
    from opscope.report.page import write_report

    with temporary_path(f"{name}.html") as path:
        write_report(trace, path)


def _save(trace: Trace, name: str) -> None:
    with temporary_path(f"{name}.opscope") as path:
        trace.save(path)


def _save_and_load(trace: Trace, name: str) -> None:
    with temporary_path(f"{name}.opscope") as path:
        trace.save(path)
        opscope.load(path)


def _findings(trace: Trace, name: str) -> None:
    trace.findings()


def _account(trace: Trace, name: str) -> None:
    trace.account()


def _chrome(trace: Trace, name: str) -> None:
    with temporary_path(f"{name}.json") as path:
        trace.export("chrome", path)


def _table(trace: Trace, name: str) -> None:
    from opscope.torch_api.event_list.event_list import make_event_list

    make_event_list(trace).key_averages().table(row_limit=10)


_SMALL_VIEWS = (("saving", _save, "s of CPU", 0.1), ("report", _report, "s of CPU", 0.1))
_LARGE_VIEWS = (("findings", _findings, "s of CPU", 3.0), ("report", _report, "s of CPU", 8.0))
_GROWING = (
    ("table", _table),
    ("saving and loading", _save_and_load),
    ("Chrome export", _chrome),
    ("findings", _findings),
    ("account of time", _account),
)
