"""The part of a recording with detail, if only some steps were recorded in detail.

Answers that need more than operators (why a program is slow, what holds its memory) refer to that
part; tables and timelines refer to the whole recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.quantity_text import share_text, time_text
from opscope.columns.metadata_kinds import BETWEEN, DETAIL, OVER, STEPS, WARM
from opscope.columns.part import LATEST_NS, Part, part_from
from opscope.columns.schema import TABLES, EventKind
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Values
from opscope.timeline.steps import optimizer_steps
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor

_FEWEST_STEPS = 2
_FEWEST_CALLS = 3
"""Minimum operators of a relevant stretch, and minimum module calls of one with a network."""
_MOST_OF_IT = 0.5
"""Minimum share of the recording, for its start: a shorter start says nothing about a program that
continued. Also of the longest stretch without steps: a much shorter one is not typical. And of the
time from the first step on, for what happens between and after steps, such as an evaluation."""
_PAUSE_NS, _PAUSE_STEPS = 50_000_000, 4  # least time between step ends that is not a step

_CALLS = ("stack", "functions", "own_functions")
_ONLY_WITH = (
    (_CALLS, (EventKind.PYTHON_CALL,), ("python_calls", "operator_calls", "script_calls")),
    (("stack",), (EventKind.C_CALL,), ()),
    (
        (*_CALLS, "modules"),
        (EventKind.MODULE_CALL, EventKind.OPTIMIZER_CALL),
        ("modules", "optimizers", "parameters"),
    ),
    (("asyncio",), (EventKind.TASK_RUN,), ("task_runs", "tasks")),
    (("shapes", "outputs"), (), ("tensors", "scalars")),
    (("memory",), (), ("allocations",)),
)
"""Event kinds and tables that need one of these options."""
_COLLECTIVE = "record_param_comms"


def has_detail(trace: TraceData) -> bool:
    """Whether some stretches were recorded in more detail than the rest."""
    return DETAIL in trace.metadata


def latest_bounds(
    metadata: Mapping[str, Any], outline: Callable[[], TraceData]
) -> tuple[int, int, dict[str, Any]] | None:
    """Begin and end of the detailed stretch of a long recording, and the metadata it adds.

    The last one with steps, else the last long one; None if only the start of the program was
    recorded in detail.

    Args:
        outline: returns the steps of the recording, and its last operator.
    """
    stretches = metadata.get(DETAIL, {}).get("stretches", ())
    start_ns = metadata.get("start_ns", 0)
    later = [one for one in stretches if one["steps"] or one["start_ns"] > start_ns]
    of_steps = [one for one in later if one["steps"]]
    between = _without_short_ones([one for one in later if not one["steps"]])
    found, added = of_steps or between, {}
    if of_steps and between:
        ends_ns, last_ns = _ends_of_steps(outline())
        share = share_between(ends_ns, max(last_ns, metadata.get(OVER, 0)))
        if share > _MOST_OF_IT:
            found, added = between, {WARM: True, BETWEEN: share}
    return (found[-1]["start_ns"], found[-1]["end_ns"], added) if found else None


def share_between(ends_ns: Values, last_ns: int) -> float:
    """Share of the time from the first step's end on that is in no step.

    Args:
        ends_ns: ends of the steps, in order.
        last_ns: end of the last operator, or of the program's own code.
    """
    if len(ends_ns) < _FEWEST_STEPS:
        return 0.0
    took = np.diff(ends_ns)
    usual = float(np.median(took))
    took = np.append(took, max(last_ns - int(ends_ns[-1]), 0))
    pauses = took[took > max(_PAUSE_NS, _PAUSE_STEPS * usual)]
    return float((pauses - usual).sum() / max(took.sum(), 1))


def in_detail(trace: TraceData) -> TraceData:
    """The most informative detailed stretch; ``trace`` if there is none."""
    part = detailed_part(trace)
    return trace if part is None else part.trace


def rows_in_detail(trace: TraceData) -> npt.NDArray[np.int64]:
    """Rows in ``trace`` of the events of ``in_detail(trace)``."""
    part = detailed_part(trace)
    return np.arange(len(trace.events)) if part is None else part.rows


@derived
def detailed_part(trace: TraceData) -> Part | None:
    """``in_detail`` with the rows of its events in ``trace``; None for the whole trace."""
    chosen = _chosen(trace)
    if chosen is None:
        return None
    begin_ns = chosen["start_ns"]
    if _is_start(trace, chosen):  # skips imports before the first operator
        operators = trace.events["kind"] == EventKind.OPERATOR
        begin_ns = int(event_tree(trace).start_ns[operators].min())
    part = part_from(trace, begin_ns, chosen["end_ns"])
    metadata = {name: value for name, value in trace.metadata.items() if name != DETAIL}
    metadata["options"] = trace.metadata[DETAIL]["options"]
    if chosen["steps"]:
        metadata |= {WARM: True, **_steps_of(trace)}
    elif _is_between(trace, chosen):
        metadata |= {WARM: True, BETWEEN: share_between(*_ends_of_steps(trace))}
    return Part(part.trace.with_only_metadata(metadata), part.rows)


def throughout(trace: TraceData) -> TraceData:
    """The whole trace without data that only detailed stretches have; ``trace`` if none has any."""
    return part_throughout(trace, 0, LATEST_NS).trace if has_detail(trace) else trace


def part_throughout(trace: TraceData, begin_ns: int, end_ns: int) -> Part:
    """The part between two moments, without data that only detailed stretches have."""
    if not has_detail(trace):
        return part_from(trace, begin_ns, end_ns)
    options = trace.metadata["options"]
    only = [row for row in _ONLY_WITH if not any(options.get(name) for name in row[0])]
    kinds = [kind for _, of_row, _ in only for kind in of_row]
    keep = ~np.isin(trace.events["kind"], kinds)
    parents = nearest_ancestor(event_tree(trace).parent, keep)
    part = part_from(trace, begin_ns, end_ns, (keep, parents))
    empty = {name: Table(TABLES[name], {}) for _, _, tables in only for name in tables}
    if "scalars" in empty:  # every recording has those of collectives
        scalars, events = part.trace.table("scalars"), part.trace.events
        name = trace.names.find(_COLLECTIVE)
        empty["scalars"] = scalars.take(
            np.flatnonzero(events["name"][scalars["event"]] == name if name >= 0 else [])
        )
    metadata = {name: value for name, value in trace.metadata.items() if name != DETAIL}
    return Part(part.trace.with_tables(empty).with_only_metadata(metadata), part.rows)


def is_warm(trace: TraceData) -> bool:
    """Whether the stretch recorded in detail has steps after warm-up."""
    chosen = _chosen(trace)
    return chosen is not None and chosen["steps"] > 0


def detail_text(metadata: Mapping[str, Any]) -> str:
    """Extent of the detailed stretches in a few words; empty without any."""
    stretches = metadata.get(DETAIL, {}).get("stretches", ())
    steps = sum(one["steps"] or 0 for one in stretches)
    took_ns = sum(one["end_ns"] - one["start_ns"] for one in stretches if one["steps"] or not steps)
    if not took_ns:
        return ""
    took = time_text(took_ns)
    return f"{steps:,} steps ({took}) in detail" if steps else f"{took} in detail"


def describe_basis(trace: TraceData) -> str:
    """Sentence about the part that findings refer to."""
    chosen, part, steps = _chosen(trace), detailed_part(trace), len(optimizer_steps(trace))
    if chosen is None or part is None:
        return "findings of the whole recording"
    took = time_text(chosen["end_ns"] - chosen["start_ns"])
    between = part.trace.metadata.get(BETWEEN)
    if between is not None and STEPS not in part.trace.metadata:
        return (
            f"{share_text(between)} of the program's time from its first step on is not in steps; "
            f"findings of {took} of that"
        )
    if chosen["steps"]:
        return f"findings of {chosen['steps']:,} of {steps:,} steps, after warm-up"
    if steps:
        return (
            "the program ended before warm-up was complete, so its start was analysed; a step "
            "ends when Optimizer.step returns"
        )
    where = "the first " if _is_start(trace, chosen) else ""
    return f"no optimizer's step() has returned; findings of {where}{took} of the program"


def _steps_of(trace: TraceData) -> dict[str, Any]:
    """Metadata: number of steps of the program, and the time from the first end on."""
    ends, last_ns = _ends_of_steps(trace)
    if len(ends) < _FEWEST_STEPS:
        return {}
    passed_ns = max(int(ends[-1]), last_ns) - int(ends[0])
    seen = {"ended": len(ends), "passed_ns": passed_ns}
    return {STEPS: seen, BETWEEN: share_between(ends, last_ns)}


@derived
def _ends_of_steps(trace: TraceData) -> tuple[Values, int]:
    """Ends of the steps, in order, and of the program's own code or last operator."""
    ends = event_tree(trace).start_ns + event_tree(trace).duration_ns
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    over_ns = min(trace.metadata.get(OVER, 0), trace.metadata.get("end_ns", 0))
    last_ns = max(int(ends[is_operator].max(initial=0)), over_ns)
    return np.sort(ends[optimizer_steps(trace)]), last_ns


@derived
def _chosen(trace: TraceData) -> Mapping[str, Any] | None:
    """The last detailed stretch with whole steps, else with a step, module calls or operators.

    If the program spends most of its time between or after steps, the last stretch there. Without
    steps, stretches much shorter than others do not count. None without any.
    """
    if not has_detail(trace):
        return None
    kind, start_ns = trace.events["kind"], event_tree(trace).start_ns
    starts = {one: start_ns[kind == one] for one in (EventKind.OPERATOR, EventKind.MODULE_CALL)}

    def has(stretch: Mapping[str, Any], what: EventKind) -> bool:
        begin, end = np.searchsorted(starts[what], (stretch["start_ns"], stretch["end_ns"]))
        return bool(end - begin >= _FEWEST_CALLS)

    def works_ns(stretch: Mapping[str, Any]) -> int:
        """Time until the last operator: a program that shuts down runs none."""
        begin, end = np.searchsorted(
            starts[EventKind.OPERATOR], (stretch["start_ns"], stretch["end_ns"])
        )
        return int(starts[EventKind.OPERATOR][end - 1] - stretch["start_ns"]) if end > begin else 0

    usable = [
        one
        for one in _stretches(trace)[::-1]
        if has(one, EventKind.OPERATOR)
        and (one["steps"] or not _is_start(trace, one) or _is_most_of_recording(trace, one))
    ]
    whole = [one for one in usable if one["steps"] >= _FEWEST_STEPS]
    some = [one for one in usable if one["steps"]]
    usable = _without_short_ones([one for one in usable if not one["steps"]], works_ns)
    if usable and _is_between(trace, usable[0]):
        return usable[0]
    networks = [one for one in usable if has(one, EventKind.MODULE_CALL)]
    return next(iter([*whole, *some, *networks, *usable]), None)


def _is_between(trace: TraceData, stretch: Mapping[str, Any]) -> bool:
    """Whether a stretch without steps shows where the program spends most of its time."""
    is_later = not _is_start(trace, stretch)
    return is_later and share_between(*_ends_of_steps(trace)) > _MOST_OF_IT


def _took_ns(stretch: Mapping[str, Any]) -> int:
    return int(stretch["end_ns"] - stretch["start_ns"])


def _without_short_ones(
    stretches: list[dict[str, Any]], length_ns: Callable[[Mapping[str, Any]], int] = _took_ns
) -> list[dict[str, Any]]:
    """Stretches of at least half the length of the longest."""
    longest_ns = max(map(length_ns, stretches), default=0)
    return [one for one in stretches if length_ns(one) >= _MOST_OF_IT * longest_ns]


def _stretches(trace: TraceData) -> list[dict[str, Any]]:
    """Detailed stretches; steps are counted for one that was open when the process was killed."""
    ends = trace.end_ns[optimizer_steps(trace)]

    def steps(one: dict[str, Any]) -> int:
        inside = np.count_nonzero((ends > one["start_ns"]) & (ends <= one["end_ns"]))
        is_counted = one["steps"] is not None or _is_start(trace, one)
        return one["steps"] or 0 if is_counted else int(inside)

    return [{**one, "steps": steps(one)} for one in trace.metadata[DETAIL]["stretches"]]


def _is_start(trace: TraceData, stretch: Mapping[str, Any]) -> bool:
    return bool(stretch["start_ns"] <= trace.metadata.get("start_ns", 0))


def _is_most_of_recording(trace: TraceData, stretch: Mapping[str, Any]) -> bool:
    whole_ns = trace.metadata.get("end_ns", 0) - trace.metadata.get("start_ns", 0)
    return bool(_took_ns(stretch) >= _MOST_OF_IT * whole_ns)
