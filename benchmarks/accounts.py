"""What is worked out from a recording: the tree with self times, and what memory was for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile
from benchmarks.workloads import TRAINING
from opscope.analysis.memory.categories import memory_accounts
from opscope.timeline.tree.event_tree import depths, event_tree, self_times

_TREE_EVENTS = 1_000_000
_TORCH_SHARE = 0.2  # of a workload's units: torch.profiler takes too long for more


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per event; opscope's categories include decoding, and so identity."""
    few = TRAINING.scaled(rounds.share * _TORCH_SHARE).units
    per_unit = in_fork(count_events, TRAINING, "default")
    many = int(_TREE_EVENTS * rounds.share / per_unit) + 1
    for name, setting, work, units, target in (
        ("tree and self times", "default", _tree, {"opscope": many, "torch": few}, 0.01),
        ("identity and memory categories", "all", _categories, dict.fromkeys(PROFILERS, few), 0.03),
    ):
        seconds = rounds.in_forks(
            name, PROFILERS, _measured, units, setting, work, count=max(2, rounds.count // 2)
        )
        of_setting = in_fork(count_events, TRAINING, setting)
        events = {profiler: units[profiler] * of_setting for profiler in PROFILERS}
        ours, theirs = ([s * 1e9 / events[who] for s in seconds[who]] for who in PROFILERS)
        note = f"{events['opscope']:,.0f} events; torch.profiler: {events['torch']:,.0f}"
        workload = TRAINING.name
        yield Figure(
            f"{name}, {setting}", workload, "ns/event", ours, theirs, target=target, note=note
        )


PROFILERS = ("opscope", "torch")


def _measured(
    profiler: str, units: dict[str, int], setting: str, work: Callable[[str, Any], object]
) -> float:
    """Seconds of ``work`` with what a profiler recorded."""
    unit = TRAINING.build()
    unit()
    with new_profile(profiler, setting) as profiled:
        for _ in range(units[profiler]):
            unit()
    if work is _tree and profiler == "opscope":
        len(profiled.trace.events)  # decoded now: torch.profiler does that in stop()
    began = time.perf_counter()
    work(profiler, profiled)
    return time.perf_counter() - began


def _tree(profiler: str, profiled: Any) -> None:
    """Parents, children, depths and self times; torch.profiler makes its tree in ``events()``."""
    if profiler == "torch":
        profiled.events()
        return
    structure = event_tree(profiled.trace)
    _ = structure.children, depths(structure.parent)
    self_times(structure, profiled.trace.events["is_async"])


def _categories(profiler: str, profiled: Any) -> None:
    """Of every version of every block; torch.profiler found out identity in ``stop()``."""
    if profiler == "torch":
        profiled._memory_profile()
    else:
        memory_accounts(profiled.trace)
