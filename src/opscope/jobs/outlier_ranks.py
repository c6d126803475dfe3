"""Outlier test: ranks that differ from the others by more than chance, and the smallest detectable
difference.

Equal ranks are never equally quick: steps scatter, a busy machine stays busy for a while, and cores
differ. What is said to be slow has to be above all of this, so that jobs whose ranks are alike have
none named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opscope.analysis.diff.statistics import two_sided_t
from opscope.columns.causes import Cause
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.timeline.arrays import Amounts

FALSE_ALARMS = 0.01
"""Of jobs whose ranks are all alike, in how many one may be said to be slow."""

_LEAST_SHARE, _LEAST_SHARE_OF_FEW = 0.05, 0.1
"""Of the time that others need for a step: less is not worth saying. Few are up to three ranks."""
_FEW = 3
_ALIKE = 0.03
"""Of a step, by which equal ranks differ for good: other cores, other memory. More is measured,
where there are enough ranks to do so."""
_MAD_TO_SIGMA, _MEDIAN_TO_MEAN = 1.4826, 1.2533
_MOST_ALIKE = 0.9
"""The correlation of a step with the one before that is allowed for at most."""
_CLOCK_NS = 1.0
"""How exactly times are known at best, also of steps that do nothing but wait for others."""

_NOT_OWN = (Cause.COLLECTIVE, Cause.DESCHEDULED)


@dataclass(frozen=True)
class StandingOut:
    """Ranks that differ from the others. Times are nanoseconds of a step."""

    places: tuple[int, ...]  # of those ranks, in the order in which they were given
    # how much longer one would have to take in every step, for anything but a processor, to be
    # among them; what there is less of may or may not be told
    least_work_ns: float
    # how much longer one would have to wait for a CPU; None where none is known to have
    # waited for one
    least_delayed_ns: float | None


def stand_out(steps: RankSteps, rows: Sequence[int]) -> StandingOut:
    """Find rows that differ from the others by more than chance and by enough to matter.

    Waiting for a CPU is compared on its own: it scatters far more than work does.
    """
    work = [_measures(steps, row, without=_NOT_OWN) for row in rows]
    delayed = [_measures(steps, row, only=Cause.DESCHEDULED) for row in rows]
    typical = float(
        np.median([one.mean() + two.mean() for one, two in zip(work, delayed, strict=True)])
    )
    least = typical * (_LEAST_SHARE_OF_FEW if len(rows) <= _FEW else _LEAST_SHARE)
    tests = len(rows) * 4  # two measures, the median and the mean of each
    found: set[int] = set()
    needed = []
    for values in (work, delayed):
        inflation = _inflation(values)
        by_middle = []
        for middle in (_by_median, _by_mean):
            centers, errors = np.array([middle(one) for one in values]).T
            excess, enough = _compared(centers, errors * inflation, values, typical, tests)
            by_middle.append(np.maximum(enough, least))
            found.update(np.flatnonzero(excess > by_middle[-1]).tolist())
        needed.append(np.minimum(*by_middle))
    places = sorted(found)
    # Beside one that is found the others seem to differ from each other.
    of_work, of_delay = (float(np.median(of[places] if places else of)) for of in needed)
    waited = any(one.any() for one in delayed)
    return StandingOut(tuple(places), of_work, of_delay if waited else None)


def _inflation(values: list[Amounts]) -> float:
    """Factor by which correlation between steps widens the scatter of a mean.

    A machine that is busy stays so for a while, so that a step resembles the one before. Taken for
    an autoregressive process of first order, by the correlation that ranks mostly have: what
    begins in the middle of one rank's recording is to be found and not to be allowed for.
    """
    correlations = []
    for one in values:
        away = one - one.mean()
        scatter = float(away @ away)
        known = float(away[1:] @ away[:-1]) / scatter if scatter > 0 else 0.0
        correlations.append(known + (1 + 4 * max(known, 0.0)) / len(one))  # its bias (Kendall 1954)
    usual = min(max(float(np.median(correlations)), 0.0), _MOST_ALIKE)
    return float(((1 + usual) / (1 - usual)) ** 0.5)


def _measures(
    steps: RankSteps, row: int, without: tuple[Cause, ...] = (), only: Cause | None = None
) -> Amounts:
    """Per step of one rank, what it went to of some causes."""
    table = steps.table_ns[row, steps.own_ns[row] != NONE]
    kept = [only] if only is not None else [one for one in Cause if one not in without]
    values: Amounts = table[:, kept].sum(axis=1).astype(np.float64)
    return values


def _by_median(values: Amounts) -> tuple[float, float]:
    """The middle of steps, and its standard error by their scatter about it."""
    center = float(np.median(values))
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(values - center)))
    return center, _MEDIAN_TO_MEAN * sigma / len(values) ** 0.5


def _by_mean(values: Amounts) -> tuple[float, float]:
    """The mean of steps, which what happens now and then moves too, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5


def _compared(
    centers: Amounts, errors: Amounts, values: list[Amounts], typical: float, tests: int
) -> tuple[Amounts, Amounts]:
    """Excess of each rank over the median of the others, and the smallest excess that is beyond
    chance. Shapes (ranks,)."""
    excess, needed = np.empty(len(centers)), np.empty(len(centers))
    for place, center in enumerate(centers):
        others = np.delete(centers, place)
        reference = float(np.median(others))
        excess[place] = float(center) - reference
        apart = _MAD_TO_SIGMA * float(np.median(np.abs(others - reference)))
        own = float(np.hypot(errors[place], np.median(np.delete(errors, place))))
        error = float(np.hypot(own, max(apart, _ALIKE * typical, _CLOCK_NS)))
        needed[place] = error * two_sided_t(2 * FALSE_ALARMS / tests, len(values[place]) - 1)
    return excess, needed
