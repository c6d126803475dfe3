"""Times of two sides: places that take significantly longer, whatever the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np

from opscope.analysis.diff.places import CallPlace
from opscope.analysis.diff.result import Level, TimeChange, TimesCompared, TimeVerdict
from opscope.analysis.diff.statistics import (
    ENOUGH_RECORDINGS,
    FALSE_DISCOVERIES,
    Estimate,
    Sample,
    Unknown,
    discoveries,
    estimate,
    estimate_rounds,
    sample_of,
)
from opscope.analysis.diff.step_costs import BETWEEN, StepCosts
from opscope.timeline.arrays import Amounts, Values

_FEWEST_PLACES = 8  # minimum number of places to estimate the machine's speed
_WORTH_ASKING = 0.002  # minimum share of a step; shorter times are noise


def speed_factors(time_ns: Amounts) -> Amounts:
    """Factor by which everything was slower than usual in each block: the median over places.

    ``time_ns`` has shape (places, blocks). Shape (blocks,); 1 if there are too few places.
    """
    usual = time_ns.mean(axis=1) if time_ns.size else np.zeros(len(time_ns))
    compared = (usual >= _WORTH_ASKING * usual.sum()) & (time_ns > 0).all(axis=1)
    if compared.sum() < _FEWEST_PLACES:
        return np.ones(time_ns.shape[1])
    ratios = np.log(time_ns[compared] / usual[compared, None])
    factors = np.median(ratios, axis=0)
    return np.asarray(np.exp(factors - factors.mean()), dtype=np.float64)


def moved_times(places: Sequence[CallPlace], change_ns: Amounts) -> Amounts:
    """Part of every change that moved to or from another of the places.

    It has the sign of the change and is never larger, and the sum is 0: a step's change is the sum
    of what has not moved. Shape (places,).
    """
    moved = np.zeros(len(change_ns))
    for kinship in ([place.operator for place in places], [place.module for place in places]):
        moved += _matched(kinship, change_ns - moved)
    return moved


def _matched(kinship: Sequence[str], change_ns: Amounts) -> Amounts:
    """Part of each change that opposite changes of its kin compensate, in proportion."""
    rows: dict[str, int] = {}
    kin = np.array([rows.setdefault(name, len(rows)) for name in kinship], dtype=np.int64)
    more, less = np.maximum(change_ns, 0), np.maximum(-change_ns, 0)
    if not len(kin):
        return more
    of_more, of_less = (np.bincount(kin, part, len(rows)) for part in (more, less))
    common = np.minimum(of_more, of_less)
    share_of_more = np.divide(common, of_more, out=np.zeros(len(rows)), where=of_more > 0)
    share_of_less = np.divide(common, of_less, out=np.zeros(len(rows)), where=of_less > 0)
    return np.asarray(more * share_of_more[kin] - less * share_of_less[kin], dtype=np.float64)


_SHARE_WORTH_TESTING = 0.003
"""Minimum share of a step on either side; shorter times are in no table, and not tested."""

_CHANGE_WORTH_SAYING = 0.002  # minimum share of a step

_OF_MACHINES, _OF_PLACES, _NOISE = Unknown(0.1), Unknown(0.03), 0.001
"""Assumed differences of recordings: in speed; at one place, as a share of it and of the step."""

_FEWEST_BLOCKS = 4  # minimum blocks of a recording, with too few recordings to compare those

_LEVELS: dict[Level, Callable[[CallPlace], CallPlace]] = {
    Level.PHASE: lambda place: CallPlace("", "", phase=place.phase, beside=place.beside),
    Level.MODULE: lambda place: CallPlace(place.module, "", beside=place.beside),
    Level.OPERATOR: lambda place: CallPlace("", place.operator, beside=place.beside),
    Level.LINE: lambda place: CallPlace("", "", line=place.line, beside=place.beside),
    Level.CALL: lambda place: place,
}
_NOWHERE = (CallPlace("", ""), CallPlace("", "", beside=True))


def why_not(a: Sequence[StepCosts], b: Sequence[StepCosts]) -> list[str]:
    """Why the steps do not permit a comparison of times; empty if they do."""
    for what, side in (("A", a), ("B", b)):
        if any(not one.steps for one in side):
            return [
                f"{what} has no steps: a step needs an optimizer, a network recorded with its "
                "modules, or prof.step()"
            ]
    if len({one.kind_of_steps for one in (*a, *b)}) > 1:
        return ["steps are defined differently: only some of the recordings mark them"]
    few = min(one.blocks for one in (*a, *b))
    if min(len(a), len(b)) < ENOUGH_RECORDINGS and few < _FEWEST_BLOCKS:
        steps = min(one.steps for one in (*a, *b))
        return [
            f"too few steps: {steps} in one recording. Record at least 12 steps after the "
            f"start-up, or {ENOUGH_RECORDINGS} recordings a side"
        ]
    return []


def compare_times(a: Sequence[StepCosts], b: Sequence[StepCosts]) -> TimesCompared:
    """Compare all places at all levels, and the step as a whole."""
    places, blocks = _stacked([*a, *b])
    on_thread = np.array([not place.beside for place in places], dtype=np.bool_)
    every = np.hstack(blocks)
    even = _each(every / speed_factors(every[on_thread]), blocks)
    whole = estimate(*_samples([one.whole_ns for one in (*a, *b)], len(a)), _OF_MACHINES)
    raw_step, even_step = (
        estimate(*_samples([one[on_thread].sum(axis=0) for one in each], len(a)), _OF_PLACES)
        for each in (blocks, even)
    )
    tested: list[tuple[Level, CallPlace, Estimate]] = []
    for level, coarser in _LEVELS.items():
        tested += _level(level, [coarser(place) for place in places], even, len(a), even_step)
    step_ns = max(even_step.a, even_step.b)
    times = _with_moved(_changes(tested, step_ns))
    times.sort(key=lambda one: -abs(one.change_ns))
    step, mean_step = _steps(a, b, whole)
    return TimesCompared(
        step,
        mean_step,
        even_step.change,
        even_step.margin,
        raw_step.change - even_step.change,
        tuple(times),
        tuple(_changes(_whole_modules(places, even, len(a), even_step), step_ns)),
    )


def _steps(
    a: Sequence[StepCosts], b: Sequence[StepCosts], whole: Estimate
) -> tuple[TimeChange, TimeChange]:
    """Change of the judged step, then of the mean step.

    The undisturbed step is judged, unless only the mean has changed, because of few steps. Without
    rounds (sides of equal number) the mean step is.
    """
    place = CallPlace("", "")
    if min(len(a), len(b)) < ENOUGH_RECORDINGS:
        # The machine's speed during each recording is unknown.
        mean = replace(_change(Level.STEP, place, whole, False, 0), verdict=TimeVerdict.NOT_JUDGED)
        return mean, mean
    mean = _change(Level.STEP, place, whole, whole.p_value <= FALSE_DISCOVERIES, whole.a)
    if len(a) != len(b):
        return mean, mean
    common = frozenset.intersection(*(frozenset(one.places) for one in (*a, *b)))
    found = estimate_rounds(
        *(np.array([_undisturbed(one, common) for one in side]) for side in (a, b))
    )
    undisturbed = _change(Level.STEP, place, found, found.p_value <= FALSE_DISCOVERIES, found.a)
    return (mean if mean.is_changed and not undisturbed.is_changed else undisturbed), mean


def _undisturbed(costs: StepCosts, common: Collection[CallPlace]) -> Amounts:
    """Two measures of a step that other programs do not lengthen.

    First the sum of its places in fast steps: each place is shorter than the step, so it is more
    often undisturbed. Places that not all recordings have count with their mean, because many short
    places are more often undisturbed than few long ones. Then the mean without waits for a CPU.
    """
    on_thread = np.array([not place.beside for place in costs.places])
    is_common = np.array([place in common for place in costs.places])
    fast_ns = np.where(is_common, costs.fast_ns, costs.undelayed_ns)
    return np.maximum([one[on_thread].sum() for one in (fast_ns, costs.undelayed_ns)], 1)


def compare_start_up(a: Sequence[StepCosts], b: Sequence[StepCosts]) -> TimeChange | None:
    """Change of the start-up time; None unless all recordings have a start-up."""
    sides = [[np.array([float(one.start_up_ns)]) for one in side] for side in (a, b)]
    if not all(one[0] for side in sides for one in side):
        return None
    before, after = (sample_of(side) for side in sides)
    found = estimate(before, after, _OF_MACHINES)
    judged = min(len(a), len(b)) >= ENOUGH_RECORDINGS
    sure = judged and found.p_value <= FALSE_DISCOVERIES
    change = _change(Level.STEP, CallPlace("", "start-up"), found, sure, 0.0)
    return change if judged else replace(change, verdict=TimeVerdict.NOT_JUDGED)


def _stacked(costs: Sequence[StepCosts]) -> tuple[list[CallPlace], list[Amounts]]:
    """All places of all recordings, and for each recording the times of all of them."""
    rows: dict[CallPlace, int] = {}
    numbers = [[rows.setdefault(place, len(rows)) for place in one.places] for one in costs]
    stacked = []
    for one, number in zip(costs, numbers, strict=True):
        times = np.zeros((len(rows), one.blocks))
        times[number] = one.time_ns
        stacked.append(times)
    return list(rows), stacked


def _each(every: Amounts, like: Sequence[Amounts]) -> list[Amounts]:
    """Split columns of all recordings into those of each."""
    ends = np.cumsum([one.shape[1] for one in like])[:-1]
    return np.split(every, ends, axis=1)


def _samples(blocks: Sequence[Amounts], of_a: int) -> tuple[Sample, Sample]:
    return sample_of(blocks[:of_a]), sample_of(blocks[of_a:])


def _level(
    level: Level, coarse: Sequence[CallPlace], even: Sequence[Amounts], of_a: int, step: Estimate
) -> list[tuple[Level, CallPlace, Estimate]]:
    """Places of one level with a relevant share, and their estimates."""
    rows: dict[CallPlace, int] = {}
    group = np.array([rows.setdefault(place, len(rows)) for place in coarse], dtype=np.int64)
    sums = [_sums(group, one, len(rows)) for one in even]
    of_place, of_rest = (
        replace(one, noise_ns=_NOISE * step.a) for one in (_OF_PLACES, _OF_MACHINES)
    )
    means = np.array([one.mean(axis=1) for one in sums])
    share = np.maximum(
        means[:of_a].mean(axis=0) / max(step.a, 1), means[of_a:].mean(axis=0) / max(step.b, 1)
    )
    return [
        (
            level,
            place,
            estimate(
                *_samples([one[row] for one in sums], of_a),
                of_rest if _is_rest(place) else of_place,
            ),
        )
        for place, row in rows.items()
        if share[row] >= _SHARE_WORTH_TESTING
        and (place not in _NOWHERE or len(rows) > 1 + (level is Level.MODULE))
    ]


def _whole_modules(
    places: Sequence[CallPlace], even: Sequence[Amounts], of_a: int, step: Estimate
) -> list[tuple[Level, CallPlace, Estimate]]:
    """Estimates of modules that contain others, including everything in these."""
    own: dict[str, list[int]] = {}
    for row, place in enumerate(places):
        if not place.beside:
            own.setdefault(place.module, []).append(row)
    rows: dict[str, list[int]] = {}
    for module, of_module in own.items():
        for path in _modules_around(module):
            rows.setdefault(path, []).extend(of_module)
    found = []
    for path, inside in rows.items():
        chosen = np.array(inside + own.get(path, []), dtype=np.int64)
        coarse = [CallPlace(path, "")] * len(chosen)
        found += _level(Level.MODULE, coarse, [one[chosen] for one in even], of_a, step)
    return found


def _modules_around(module: str) -> list[str]:
    """``net`` and ``net.blocks`` for ``net.blocks.3``."""
    names = module.split(".")
    return [".".join(names[:count]) for count in range(1, len(names))]


def _is_rest(place: CallPlace) -> bool:
    """Whether the place is the time outside all places, whose dependencies are unknown."""
    return place in _NOWHERE or place.operator == BETWEEN.operator


def _sums(group: Values, times: Amounts, groups: int) -> Amounts:
    result = np.zeros((groups, times.shape[1]))
    np.add.at(result, group, times)
    return result


def _changes(
    tested: Sequence[tuple[Level, CallPlace, Estimate]], step_ns: float
) -> list[TimeChange]:
    """Changes of estimates tested together, with verdicts."""
    found = discoveries(np.array([one.p_value for _, _, one in tested]))
    return [
        _change(level, place, one, bool(sure), step_ns)
        for (level, place, one), sure in zip(tested, found, strict=True)
    ]


def _change(
    level: Level, place: CallPlace, found: Estimate, sure: bool, step_ns: float
) -> TimeChange:
    verdict = TimeVerdict.NO_DIFFERENCE
    if sure and abs(found.change) >= _CHANGE_WORTH_SAYING * step_ns:
        verdict = TimeVerdict.SLOWER if found.change > 0 else TimeVerdict.FASTER
    return TimeChange(
        level=level,
        place=place,
        a_ns=found.a,
        b_ns=found.b,
        change_ns=found.change,
        margin_ns=found.margin,
        p_value=found.p_value,
        verdict=verdict,
    )


def _with_moved(changes: Sequence[TimeChange]) -> list[TimeChange]:
    """Add the moved part to changed calls, and its sum to the places that contain them."""
    calls = [one for one in changes if one.level is Level.CALL and one.is_changed]
    moved = moved_times([one.place for one in calls], np.array([one.change_ns for one in calls]))
    total: dict[tuple[Level, CallPlace], float] = {}
    for one, part in zip(calls, moved.tolist(), strict=True):
        for level, coarser in _LEVELS.items():
            key = (level, coarser(one.place))
            total[key] = total.get(key, 0.0) + part
    return [replace(one, moved_ns=total.get((one.level, one.place), 0.0)) for one in changes]
