"""What is worked out from a recording: the tree with self times, and what memory was for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import count_events, new_profile
from benchmarks.workloads import TRAINING, Workload
from opscope.analysis.memory.categories import memory_accounts
from opscope.timeline.tree.ancestry import depths
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.self_time import self_times

_TREE_EVENTS = 1_000_000
_TORCH_SHARE = 0.2  # of a workload's units: torch.profiler takes too long for more


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time per event; opscope's categories include decoding, and so identity."""
    small = TRAINING.scaled(rounds.share * _TORCH_SHARE)
    per_unit = in_fork(count_events, TRAINING, "default")
    large = Workload(TRAINING.name, TRAINING.build, int(_TREE_EVENTS * rounds.share / per_unit) + 1)
    yield _figure(
        "tree and self times", "default", (tree, large), (list_events, small), 0.01, rounds
    )
    same = (categories, small), (memory_profile, small)
    yield _figure("identity and memory categories", "all", *same, 0.03, rounds)


Measured = tuple[Callable[[Workload, str], float], Workload]


def _figure(
    name: str, setting: str, ours: Measured, theirs: Measured, target: float, rounds: Rounds
) -> Figure:
    def variant(measured: Measured) -> Callable[[], float]:
        return lambda: in_fork(*measured, setting)

    variants = {"opscope": variant(ours), "torch": variant(theirs)}
    results = rounds.interleave(name, variants, max(2, rounds.count // 2))
    per_unit = in_fork(count_events, TRAINING, setting)
    events = {"opscope": ours[1].units * per_unit, "torch": theirs[1].units * per_unit}
    per_event = {who: [s * 1e9 / events[who] for s in seconds] for who, seconds in results.items()}
    return Figure(
        f"{name}, {setting}",
        TRAINING.name,
        "ns/event",
        per_event["opscope"],
        per_event["torch"],
        target=target,
        note=f"{events['opscope']:,.0f} events; torch.profiler: {events['torch']:,.0f}",
    )


def tree(workload: Workload, setting: str) -> float:
    """Seconds for parents, children, depths and self times of every event."""
    trace = _profiled("opscope", workload, setting).trace
    len(trace.events)
    began = time.perf_counter()
    structure = event_tree(trace)
    _ = (
        structure.children,
        depths(structure.parent),
        self_times(structure, trace.events["is_async"]),
    )
    return time.perf_counter() - began


def list_events(workload: Workload, setting: str) -> float:
    """Seconds for torch.profiler's ``events()``, which is where it makes its tree."""
    profiled = _profiled("torch", workload, setting)
    began = time.perf_counter()
    profiled.events()
    return time.perf_counter() - began


def categories(workload: Workload, setting: str) -> float:
    """Seconds from a stopped recording to the category of every version of every block."""
    profiled = _profiled("opscope", workload, setting)
    began = time.perf_counter()
    memory_accounts(profiled.trace)
    return time.perf_counter() - began


def memory_profile(workload: Workload, setting: str) -> float:
    """The same with torch.profiler, whose ``stop()`` has found out identity already."""
    profiled = _profiled("torch", workload, setting)
    began = time.perf_counter()
    profiled._memory_profile()
    return time.perf_counter() - began


def _profiled(profiler: str, workload: Workload, setting: str) -> Any:
    unit = workload.build()
    unit()
    with new_profile(profiler, setting) as profiled:
        for _ in range(workload.units):
            unit()
    return profiled
