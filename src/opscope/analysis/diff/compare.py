"""Comparison of two versions of a program, from recordings of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Comparable:
    """Kinds of data that both sides have."""

    parts: frozenset[PlaceKeys]  # keys of places recorded on both sides
    memory: bool  # whether bytes can be compared
    against_times: tuple[str, ...]  # why times are not comparable; empty if they are
    lost: tuple[str, ...]  # recordings with dropped events
    not_recorded: tuple[str, ...]  # kinds of data that neither side has
    notes: tuple[str, ...]  # remarks for readers


def find_comparable(a: Side, b: Side, despite: Iterable[Despite | str] = ()) -> Comparable:
    """Find what can be compared, from the metadata of the recordings."""
    allowed = {_despite(one) for one in despite}
    notes, against = [], []
    for allows, reasons in ((Despite.VERSIONS, _versions(a, b)), (Despite.OPTIONS, _options(a, b))):
        for reason in reasons:
            if allows in allowed:
                notes.append(f"{reason}; compared nevertheless")
            else:
                against.append(f"{reason} (--despite {allows.value} compares nevertheless)")
    one_sided, not_recorded = _missing(a, b)
    notes += one_sided
    memory = [memory_was_recorded(trace) for side in (a, b) for trace in side.traces]
    notes += _hosts(a, b)
    lost = [*_incomplete(a), *_incomplete(b)]
    notes += [f"{name} has DROPPED events, so that its counts are too low" for name in lost]
    notes += [*_doubtful(a), *_doubtful(b)]
    parts = a.parts & b.parts
    return Comparable(
        parts, all(memory), tuple(against), tuple(lost), tuple(not_recorded), tuple(notes)
    )


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


def _missing(a: Side, b: Side) -> tuple[list[str], list[str]]:
    """Notes about data that only one side has, and kinds of data that neither has."""
    memory = [all(memory_was_recorded(trace) for trace in side.traces) for side in (a, b)]
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
    comparable = find_comparable(a, b, despite)
    costs_a, costs_b = a.costs(comparable.parts), b.costs(comparable.parts)
    not_judged = [*comparable.against_times, *why_not(costs_a, costs_b)]
    times = TimesCompared() if not_judged else compare_times(costs_a, costs_b)
    step, notes = times.step, comparable.notes
    if step is not None and step.verdict is TimeVerdict.NOT_JUDGED:
        notes = (*notes, _FEW_RECORDINGS)
    return Diff(
        **vars(times),
        **vars(compare_counts(costs_a, costs_b, comparable.memory)),
        a=_compared(a, costs_a),
        b=_compared(b, costs_b),
        start_up=None if comparable.against_times else compare_start_up(costs_a, costs_b),
        not_judged=tuple(not_judged),
        not_counted=_not_counted(comparable, [*costs_a, *costs_b]),
        not_recorded=comparable.not_recorded,
        notes=notes,
    )


def _not_counted(comparable: Comparable, costs: Sequence[StepCosts]) -> dict[str, str]:
    """Why exact numbers cannot be compared, by kind."""
    reasons = {}
    if PlaceKeys.SHAPES not in comparable.parts:
        reasons["shapes"] = "argument shapes were not recorded on both sides"
    if not comparable.memory:
        reasons["bytes"] = "memory was not recorded on both sides"
    if not all(one.steps for one in costs):
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), "there are no steps")
    if comparable.lost:
        lost = f"events were dropped from {', '.join(comparable.lost)}"
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), lost)
    return reasons


def _compared(side: Side, costs: Sequence[StepCosts]) -> Compared:
    return Compared(side.names, sum(one.steps for one in costs), sum(one.typical for one in costs))
