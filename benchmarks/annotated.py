"""What ``record_function`` costs around nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

import opscope
from benchmarks.figures import Figure
from benchmarks.rounds import Rounds
from benchmarks.sessions import new_profile, time_units

SPANS = 1000
ANNOTATIONS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "opscope": opscope.record_function,
    "torch": torch.profiler.record_function,
}


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per ``with record_function(...)``, without a profiler and with one."""
    for recording, target in ((False, 0.1), (True, 0.2)):
        name = f"record_function, profiler {'on' if recording else 'off'}"
        spans = rounds.in_forks(name, ANNOTATIONS, _time_spans, recording)
        ours, theirs = spans["opscope"], spans["torch"]
        yield Figure(name, "an empty block", "ns/span", ours, theirs, target=target)


def _time_spans(profiler: str, recording: bool) -> float:
    annotation = ANNOTATIONS[profiler]

    def unit() -> None:
        for _ in range(SPANS):
            with annotation("a span"):
                pass

    time_units(unit, 5)
    if not recording:
        return time_units(unit, 20) / SPANS
    with new_profile(profiler, "default"):
        unit()
        return time_units(unit, 20) / SPANS
