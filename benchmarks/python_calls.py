"""What recording Python calls and modules adds to recording operators, against torch.profiler."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

from torch import nn, ones

from benchmarks.figures import Figure
from benchmarks.isolation import in_fork
from benchmarks.rounds import Rounds
from benchmarks.sessions import Run, count_events, run, time_units, time_unprofiled
from benchmarks.workloads import TRAINING, Unit, Workload

STACK_TARGET = 0.50
MODULES_TARGET = 0.15

Variant = tuple[str, str]
"""Who records, and the setting; "empty": a profile function that does nothing."""
Runs = dict[Variant, list[Run]]

VARIANTS = [("opscope", setting) for setting in ("default", "modules", "stack")]
VARIANTS += [("torch", setting) for setting in ("default", "stack")]
VARIANTS += [("empty", "stack")] if sys.version_info < (3, 12) else []


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Time that ``with_stack`` and ``with_modules`` add per call, against torch's ``with_stack``.

    For the training loop, whose operators differ more from run to run than that, all that recording
    with stacks adds.

    Everything is divided by the calls that opscope records with stacks, so that the rows of a
    workload compare: modules only is the cheap way to much of the same answer.
    """
    for workload in (PYTHON_CALLS, C_CALLS, MODULE_CALLS):
        part = workload.scaled(rounds.share)
        runs = rounds.in_forks(f"Python calls, {part.name}", VARIANTS, _run, part)
        calls = in_fork(count_events, part, "stack") - in_fork(count_events, part, "default")
        yield from _figures(part.name, runs, calls)
    part = TRAINING.scaled(rounds.share)
    with_stack = [("opscope", "stack"), ("torch", "stack")]
    runs = rounds.in_forks(f"Python calls, {part.name}", with_stack, _run, part)
    events = in_fork(count_events, part, "stack")
    ours, theirs = ([run.added_ns / events for run in runs[variant]] for variant in with_stack)
    name = "recording, with_stack"
    yield Figure(name, part.name, "ns/event", ours, theirs, target=STACK_TARGET)


def _figures(workload: str, runs: Runs, calls: float) -> Iterator[Figure]:
    def more(profiler: str, setting: str) -> list[float]:
        pairs = zip(runs[profiler, setting], runs[profiler, "default"], strict=True)
        return [(long.added_ns - short.added_ns) / calls for long, short in pairs]

    def figure(name: str, ours: list[float], target: float | None, note: str = "") -> Figure:
        return Figure(name, workload, "ns/call", ours, theirs, compared_with, target, note=note)

    theirs, compared_with = more("torch", "stack"), "torch.profiler's with_stack"
    yield figure("with_stack", more("opscope", "stack"), STACK_TARGET)
    if workload == MODULE_CALLS.name:
        yield figure("with_modules", more("opscope", "modules"), MODULES_TARGET)
    if empty := [run.added_ns / calls for run in runs.get(("empty", "stack"), [])]:
        note = "CPython's own part of with_stack, in both"
        yield figure("an empty profile function", empty, None, note)


def _run(variant: Variant, workload: Workload) -> Run:
    who, setting = variant
    return _empty_profile_function(workload) if who == "empty" else run(who, workload, setting)


def _empty_profile_function(workload: Workload) -> Run:
    """Run a workload while CPython calls a function that does nothing.

    That function is C's ``abs``: its first argument is null, and 0 is what it has to return.
    """
    unit = workload.build()
    plain_ns = time_unprofiled(unit, workload.units)
    ctypes.pythonapi.PyEval_SetProfile(ctypes.CDLL(None).abs, None)
    recorded_ns = time_units(unit, workload.units)
    ctypes.pythonapi.PyEval_SetProfile(None, None)
    return Run(plain_ns, recorded_ns)


def python_calls() -> Unit:
    """A thousand calls of some functions that do nothing, one in another."""

    def inner() -> None:
        pass

    def outer() -> None:
        inner()

    def unit() -> None:
        for _ in range(500):
            outer()

    return unit


def c_calls() -> Unit:
    """A thousand calls of built-in functions and methods."""
    numbers = list(range(8))

    def unit() -> None:
        for _ in range(250):
            len(numbers)
            numbers.append(0)
            numbers.pop()
            abs(-1)

    return unit


def module_calls() -> Unit:
    """Modules in modules, each with little to do, as the layers of a network are."""
    model: nn.Module = nn.Identity()
    for _ in range(10):
        model = nn.Sequential(model, nn.Identity(), nn.ReLU())
    sample = ones(4)
    return lambda: model(sample)


PYTHON_CALLS = Workload("Python calls", python_calls, units=200)
C_CALLS = Workload("C calls", c_calls, units=200)
MODULE_CALLS = Workload("nested modules", module_calls, units=400)
