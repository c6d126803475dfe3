"""Exact comparisons: calls, bytes and shapes per step, and peak memory.

An unchanged program has the same numbers in every step. If numbers vary between steps anyway (a
logged batch, a thread that loads data), they count as different if the sides' ranges do not
overlap, or if chance does not explain the change in calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import sqrt

from opscope.analysis.diff.places import CallPlace
from opscope.analysis.diff.result import (
    CountChange,
    CountsCompared,
    PeakChange,
    Quantity,
    ShapeChange,
)
from opscope.analysis.diff.statistics import FALSE_DISCOVERIES, normal_p
from opscope.analysis.diff.step_costs import PerStep, StepCosts

_BURSTS = 4  # variance of counts relative to Poisson variance: varying counts come in bursts


def compare_counts(
    a: Sequence[StepCosts], b: Sequence[StepCosts], with_bytes: bool
) -> CountsCompared:
    """Compare the numbers that are the same in every recording of an unchanged program."""
    calls = [_of_side([one.calls for one in side], side) for side in (a, b)]
    found, left_out = _changes(Quantity.CALLS, *(_without_shapes(side) for side in calls))
    if with_bytes:
        sizes = [_of_side([one.bytes or {} for one in side], side) for side in (a, b)]
        more, left_out = _changes(Quantity.BYTES, *(_without_shapes(side) for side in sizes))
        found += more
    found.sort(key=lambda one: (one.quantity, -abs(one.change)))
    return CountsCompared(tuple(found), left_out, tuple(_shapes(*calls)), _peaks(a, b, with_bytes))


def _of_side(
    recordings: Sequence[dict[CallPlace, PerStep]], costs: Sequence[StepCosts]
) -> dict[CallPlace, PerStep]:
    """Combined counts of one side's recordings; places missing from one count as 0."""
    steps = sum(one.steps for one in costs)
    places = dict.fromkeys(place for one in recordings for place in one)
    result = {}
    for place in places:
        there = [one.get(place, PerStep(0, 0, 0, 0)) for one in recordings]
        result[place] = PerStep(
            min(one.least for one in there),
            max(one.most for one in there),
            sum(one.total for one in there),
            steps,
        )
    return result


def _without_shapes(side: dict[CallPlace, PerStep]) -> dict[CallPlace, PerStep]:
    """Counts by module, operator and phase: a changed source line changes no number."""
    return {place: _all_of(shapes) for place, shapes in _by_shape(side).items()}


def _together(one: PerStep, other: PerStep) -> PerStep:
    return PerStep(
        one.least + other.least, one.most + other.most, one.total + other.total, one.steps
    )


def _changes(
    quantity: Quantity, a: dict[CallPlace, PerStep], b: dict[CallPlace, PerStep]
) -> tuple[list[CountChange], int]:
    """Differences, and the number of places that could not be compared."""
    found, left_out = [], 0
    for place in dict.fromkeys((*a, *b)):
        here, there = a.get(place), b.get(place)
        if _differ(here, there, quantity):
            found.append(CountChange(quantity, place, here, there))
        elif quantity is Quantity.BYTES:
            left_out += not all(one is None or one.is_constant for one in (here, there))
    return found, left_out


def _differ(a: PerStep | None, b: PerStep | None, quantity: Quantity) -> bool:
    a, b = a or PerStep(0, 0, 0, b.steps if b else 1), b or PerStep(0, 0, 0, a.steps if a else 1)
    if a.most < b.least or b.most < a.least:
        return True
    if quantity is Quantity.BYTES or (a.is_constant and b.is_constant) or not a.total + b.total:
        return False
    error = sqrt(_BURSTS * (a.total / a.steps**2 + b.total / b.steps**2))
    return normal_p((b.mean - a.mean) / error) <= FALSE_DISCOVERIES**2


def _shapes(a: dict[CallPlace, PerStep], b: dict[CallPlace, PerStep]) -> list[ShapeChange]:
    """Changed shapes by place. If only the number of calls differs, that is a change of counts."""
    sides = [_by_shape(side) for side in (a, b)]
    found = []
    for place in dict.fromkeys((*sides[0], *sides[1])):
        here, there = (side.get(place, {}) for side in sides)
        differing = [
            shapes
            for shapes in dict.fromkeys((*here, *there))
            if _differ(here.get(shapes), there.get(shapes), Quantity.CALLS)
        ]
        if here.keys() == there.keys() and _differ(_all_of(here), _all_of(there), Quantity.CALLS):
            continue
        if differing and here and there:
            found.append(
                ShapeChange(place, _shapes_text(here, differing), _shapes_text(there, differing))
            )
    return found


def _by_shape(side: dict[CallPlace, PerStep]) -> dict[CallPlace, dict[str, PerStep]]:
    result: dict[CallPlace, dict[str, PerStep]] = {}
    for place, count in side.items():
        of_place = result.setdefault(place._replace(shapes="", line=""), {})
        before = of_place.get(place.shapes)
        of_place[place.shapes] = _together(before, count) if before else count
    return result


def _all_of(shapes: dict[str, PerStep]) -> PerStep:
    first, *others = shapes.values()
    return reduce(_together, others, first)


def _shapes_text(side: dict[str, PerStep], shapes: Sequence[str]) -> tuple[str, ...]:
    """Shapes with their calls per step: ``3 x [64, 128]``."""
    counts = [(one, side[one].mean) for one in shapes if one in side]
    return tuple(f"{count:g} x {one or 'none'}" for one, count in counts)


def _peaks(
    a: Sequence[StepCosts], b: Sequence[StepCosts], with_bytes: bool
) -> tuple[PeakChange, ...]:
    if not with_bytes:
        return ()
    devices = dict.fromkeys(device for one in (*a, *b) for device in one.peak_bytes)
    ranges = []
    for device in devices:
        peaks = [[one.peak_bytes.get(device, 0) for one in side] for side in (a, b)]
        ranges.append(PeakChange(device, *((min(one), max(one)) for one in peaks)))
    return tuple(ranges)
