"""What changed between two versions of a program, from recordings of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opscope.analysis.diff.comparable import Comparable, Despite, find_comparable
from opscope.analysis.diff.counts import compare_counts
from opscope.analysis.diff.places import KnownBy
from opscope.analysis.diff.result import Compared, Diff
from opscope.analysis.diff.side import Side
from opscope.analysis.diff.step_costs import StepCosts
from opscope.analysis.diff.times import compare_start_up, compare_times, why_not


def compare(a: Side, b: Side, despite: Iterable[Despite | str] = ()) -> Diff:
    """As :func:`opscope.diff`, of sides that have been read."""
    comparable = find_comparable(a, b, despite)
    costs_a, costs_b = a.costs(comparable.parts), b.costs(comparable.parts)
    not_judged = [*comparable.against_times, *why_not(costs_a, costs_b)]
    times = None if not_judged else compare_times(costs_a, costs_b)
    counts = compare_counts(costs_a, costs_b, comparable.memory)
    return Diff(
        a=_compared(a, costs_a),
        b=_compared(b, costs_b),
        step=times.step if times else None,
        places_ns=times.places_ns if times else 0.0,
        places_margin_ns=times.places_margin_ns if times else 0.0,
        alike_ns=times.alike_ns if times else 0.0,
        times=times.times if times else (),
        whole_modules=times.whole_modules if times else (),
        counts=counts.counts,
        counts_left_out=counts.left_out,
        shapes=counts.shapes,
        memory=counts.memory,
        start_up=None if comparable.against_times else compare_start_up(costs_a, costs_b),
        not_judged=tuple(not_judged),
        not_counted=_not_counted(comparable, [*costs_a, *costs_b]),
        notes=comparable.notes,
    )


def _not_counted(comparable: Comparable, costs: Sequence[StepCosts]) -> dict[str, str]:
    """Why what is compared exactly cannot be."""
    reasons = {}
    if KnownBy.SHAPES not in comparable.parts:
        reasons["shapes"] = "argument shapes were not recorded on both sides"
    if not comparable.memory:
        reasons["bytes"] = "memory was not recorded on both sides"
    if not all(one.steps for one in costs):
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), "there are no steps to count in")
    if comparable.lost:
        lost = f"events were dropped from {', '.join(comparable.lost)}"
        reasons |= dict.fromkeys(("count", "bytes", "shapes"), lost)
    return reasons


def _compared(side: Side, costs: Sequence[StepCosts]) -> Compared:
    return Compared(side.names, sum(one.steps for one in costs), sum(one.typical for one in costs))
