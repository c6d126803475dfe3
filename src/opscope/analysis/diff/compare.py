"""Comparison of two versions of a program, from recordings of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from opscope.analysis.diff.counts import compare_counts
from opscope.analysis.diff.places import PlaceKeys
from opscope.analysis.diff.result import Compared, Diff, TimesCompared, TimeVerdict
from opscope.analysis.diff.statistics import ENOUGH_RECORDINGS
from opscope.analysis.diff.step_costs import Side, StepCosts
from opscope.analysis.diff.times import compare_start_up, compare_times, why_not
from opscope.analysis.memory.counters import memory_was_recorded
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.detail import throughout
from opscope.timeline.doubts import doubts_text


class Despite(str, Enum):
    """Differences between recordings that can be allowed."""

    VERSIONS = "versions"
    OPTIONS = "options"


_COSTS_NOTHING = {"process_ids", "source_lines", "gpu", "gpu_sync", "all_threads"}
"""Options that do not slow down operators or calls."""

_SWITCHES = {
    PlaceKeys.MODULE: "nn.Module calls (with_modules=True, or --modules)",
    PlaceKeys.SHAPES: "argument shapes (record_shapes=True, or --shapes)",
    PlaceKeys.LINE: "Python calls (with_stack=True, or --stack)",
}
_FEW_RECORDINGS = (
    f"fewer than {ENOUGH_RECORDINGS} recordings of a side do not show how fast the machine was, so "
    "the step's time is not judged: `opscope diff --run 5 OLD.py NEW.py` records both in turn"
)
_MEMORY = "memory (profile_memory=True, or --memory)"


def _against_times(
    a: Side, b: Side, despite: Iterable[Despite | str]
) -> tuple[list[str], list[str]]:
    """Why times are not comparable, and notes on differences that were allowed."""
    allowed, notes, against = {_despite(one) for one in despite}, list[str](), list[str]()
    for allows, reasons in ((Despite.VERSIONS, _versions(a, b)), (Despite.OPTIONS, _options(a, b))):
        for reason in reasons:
            if allows in allowed:
                notes.append(f"{reason}; compared nevertheless")
            else:
                against.append(f"{reason} (--despite {allows.value} compares nevertheless)")
    return against, notes


def _despite(word: Despite | str) -> Despite:
    try:
        return Despite(word)
    except ValueError as error:
        known = ", ".join(one.value for one in Despite)
        raise UsageError(f"Recordings cannot differ in {word!r}. Choose from: {known}.") from error


def _versions(a: Side, b: Side) -> list[str]:
    return [
        f"{what} differs: {_listed(here)} and {_listed(there)}"
        for key, what in (("torch_version", "torch"), ("python_version", "Python"))
        if (here := _values(a, key)) != (there := _values(b, key))
    ]


def _options(a: Side, b: Side) -> list[str]:
    """Differences of recording that cost time."""
    kinds = {_recorder(trace) for side in (a, b) for trace in side.traces}
    if len(kinds) > 1:
        return ["different profilers recorded them, with different overhead"]
    on = [[_switched_on(trace) for trace in side.traces] for side in (a, b)]
    first, *others = [*on[0], *on[1]]
    differing = sorted(first.union(*others) - first.intersection(*others))
    if not differing:
        return []
    return [f"recording options differ, and so does the overhead: {', '.join(differing)}"]


def _recorder(trace: TraceData) -> bool:
    return isinstance(trace.metadata.get("options"), dict)


def _switched_on(trace: TraceData) -> set[str]:
    """Options with a cost; for other profilers, the recorded tables."""
    options = trace.metadata.get("options")
    if isinstance(options, dict):
        return {str(name) for name, on in options.items() if on} - _COSTS_NOTHING
    tables = ("tensors", "allocations", "python_calls")
    return {name for name in tables if len(trace.table(name))}


def _missing(a: Side, b: Side, memory: Sequence[bool]) -> tuple[list[str], list[str]]:
    """Notes about data that only one side has, and kinds of data that neither has."""
    has = {switch: (part in a.parts, part in b.parts) for part, switch in _SWITCHES.items()}
    has[_MEMORY] = memory[0], memory[1]
    one_sided = [
        f"only {'A' if of_a else 'B'} recorded {what}, so it was not compared"
        for what, (of_a, of_b) in has.items()
        if of_a != of_b
    ]
    return one_sided, [what for what, sides in has.items() if not any(sides)]


def _hosts(a: Side, b: Side) -> list[str]:
    here, there = _values(a, "host_name"), _values(b, "host_name")
    if here == there:
        return []
    return [
        (f"hosts differ: {_listed(here)} and {_listed(there)}; times of different machines differ")
    ]


def _incomplete(side: Side) -> list[str]:
    return [
        name
        for name, trace in zip(side.names, side.traces, strict=True)
        if any(trace.ledger.losses())
    ]


def _doubtful(side: Side) -> list[str]:
    texts = (doubts_text(trace, losses=False) for trace in side.traces)
    found = zip(side.names, texts, strict=True)
    return [f"{name}: {reason}" for name, reason in found if reason]


def _values(side: Side, key: str) -> list[Any]:
    return sorted({str(trace.metadata.get(key) or "unknown") for trace in side.traces})


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values))


def compare(a: Side, b: Side, despite: Iterable[Despite | str] = ()) -> Diff:
    """Compare sides that have been read; see :func:`opscope.diff`.

    Data that only detail stretches have is left out: other steps would have other places.
    """
    a, b = (replace(side, traces=tuple(map(throughout, side.traces))) for side in (a, b))
    against_times, notes = _against_times(a, b, despite)
    memory = [all(map(memory_was_recorded, side.traces)) for side in (a, b)]
    one_sided, not_recorded = _missing(a, b, memory)
    lost = [*_incomplete(a), *_incomplete(b)]
    notes += [*one_sided, *_hosts(a, b)]
    notes += [f"{name} has DROPPED events, so that its counts are too low" for name in lost]
    notes += [*_doubtful(a), *_doubtful(b)]
    parts = a.parts & b.parts
    costs_a, costs_b = a.costs(parts), b.costs(parts)
    not_judged = [*against_times, *why_not(costs_a, costs_b)]
    times = TimesCompared() if not_judged else compare_times(costs_a, costs_b)
    if times.step is not None and times.step.verdict is TimeVerdict.NOT_JUDGED:
        notes.append(_FEW_RECORDINGS)
    return Diff(
        **vars(times),
        **vars(compare_counts(costs_a, costs_b, all(memory))),
        a=_compared(a, costs_a),
        b=_compared(b, costs_b),
        start_up=None if against_times else compare_start_up(costs_a, costs_b),
        not_judged=tuple(not_judged),
        not_counted=_not_counted(parts, all(memory), lost, [*costs_a, *costs_b]),
        not_recorded=tuple(not_recorded),
        notes=tuple(notes),
    )


def _not_counted(
    parts: frozenset[PlaceKeys], memory: bool, lost: Sequence[str], costs: Sequence[StepCosts]
) -> dict[str, str]:
    """Why exact numbers cannot be compared, by kind."""
    reasons = {}
    if PlaceKeys.SHAPES not in parts:
        reasons["shapes"] = "argument shapes were not recorded on both sides"
    if not memory:
        reasons["bytes"] = "memory was not recorded on both sides"
    if not all(one.steps for one in costs):
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), "there are no steps")
    if lost:
        dropped = f"events were dropped from {', '.join(lost)}"
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), dropped)
    return reasons


def _compared(side: Side, costs: Sequence[StepCosts]) -> Compared:
    return Compared(side.names, sum(one.steps for one in costs), sum(one.typical for one in costs))
