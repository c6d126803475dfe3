"""What changed between two versions of a program, from recordings of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opscope.analysis.diff.comparable import Comparable, Despite, find_comparable
from opscope.analysis.diff.counts import compare_counts
from opscope.analysis.diff.places import KnownBy
from opscope.analysis.diff.result import Compared, Diff
from opscope.analysis.diff.side import Recording, Side, open_sides
from opscope.analysis.diff.step_costs import StepCosts
from opscope.analysis.diff.times import compare_start_up, compare_times, why_not


def diff(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    despite: Iterable[Despite | str] = (),
) -> Diff:
    """Compare recordings of two versions of a program: what is slower, what is more, what moved.

    Only steps of the steady state are compared; how long the program takes to start is told apart.
    Numbers of calls, bytes and shapes are compared exactly. Times are compared with what
    recordings differ by, where there are three a side or more, else with what blocks of steps
    differ by; only large differences can be told from chance then.

    Args:
        a: what to compare with: a trace, or where one is, or several of them.
        b: what is to be judged, likewise.
        despite: differences to allow, ``versions`` (of torch and Python) or ``options`` (of the
            recording). Unless they are allowed, nothing is said about times.

    Raises:
        UsageError: a side has no recording, one holds nothing, or ``despite`` makes no sense.
        TraceFormatError: as :func:`opscope.load`.
    """
    return compare(*open_sides(a, b), despite)


def compare(a: Side, b: Side, despite: Iterable[Despite | str] = ()) -> Diff:
    """As :func:`diff`, of sides that have been read."""
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
