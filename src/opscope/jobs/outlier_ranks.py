"""Outlier test: ranks that differ from the others by more than chance.

Equal ranks are never equally fast: steps scatter, a busy machine stays busy for a while, and cores
differ. An outlier must exceed all of this, so that jobs with equal ranks have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opscope.analysis.diff.statistics import two_sided_t
from opscope.columns.causes import Cause
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.timeline.arrays import Amounts

FALSE_ALARMS = 0.01  # share of jobs with equal ranks in which the test may name one

_LEAST_SHARE, _LEAST_SHARE_OF_FEW = 0.05, 0.1
"""Least relevant difference, as a share of others' step time; the second for up to three ranks."""
_FEW = 3
_ALIKE = 0.03
"""Permanent difference of equal ranks, as a share of a step; measured if there are enough ranks."""
_MAD_TO_SIGMA, _MEDIAN_TO_MEAN = 1.4826, 1.2533
_MOST_ALIKE = 0.9  # largest correlation of consecutive steps that is allowed for
_CLOCK_NS = 1.0  # resolution of times, also for steps that only wait for others
_NOT_OWN = (Cause.COLLECTIVE, Cause.DESCHEDULED)


@dataclass(frozen=True)
class StandingOut:
    """Ranks that differ from the others. Times are nanoseconds of a step."""

    places: tuple[int, ...]  # positions of these ranks in the input
    least_work_ns: float  # smallest difference that is certainly detected, without waits for a CPU
    least_delayed_ns: float | None  # the same of waits for a CPU; None if there were none


def stand_out(steps: RankSteps, rows: Sequence[int]) -> StandingOut:
    """Find rows that differ from the others by more than chance and by enough to matter.

    Waits for a CPU are compared separately: they scatter far more than work does.
    """
    work = [_measures(steps, row, without=_NOT_OWN) for row in rows]
    delayed = [_measures(steps, row, only=Cause.DESCHEDULED) for row in rows]
    typical = float(
        np.median([one.mean() + two.mean() for one, two in zip(work, delayed, strict=True)])
    )
    least = typical * (_LEAST_SHARE_OF_FEW if len(rows) <= _FEW else _LEAST_SHARE)
    tests = len(rows) * 4  # two measures, the median and the mean of each
    outliers: set[int] = set()
    needed = []
    for values in (work, delayed):
        inflation = _inflation(values)
        by_middle = []
        for middle in (_by_median, _by_mean):
            centers, errors = np.array([middle(one) for one in values]).T
            excess, enough = _compared(centers, errors * inflation, values, typical, tests)
            by_middle.append(np.maximum(enough, least))
            outliers.update(np.flatnonzero(excess > by_middle[-1]).tolist())
        needed.append(np.minimum(*by_middle))
    places = sorted(outliers)
    # With an outlier, the others seem to differ from each other.
    of_work, of_delay = (float(np.median(of[places] if places else of)) for of in needed)
    waited = any(one.any() for one in delayed)
    return StandingOut(tuple(places), of_work, of_delay if waited else None)


def _inflation(values: list[Amounts]) -> float:
    """Factor by which correlation between steps widens the scatter of a mean.

    A busy machine stays busy for a while, so that a step resembles the previous one. The model is
    an autoregressive process of first order with the median correlation of the ranks: a change in
    one rank's recording must be found, not allowed for.
    """
    correlations = []
    for series in values:
        deviation = series - series.mean()
        scatter = float(deviation @ deviation)
        rho = float(deviation[1:] @ deviation[:-1]) / scatter if scatter > 0 else 0.0
        correlations.append(rho + (1 + 4 * max(rho, 0.0)) / len(series))  # its bias (Kendall 1954)
    usual = min(max(float(np.median(correlations)), 0.0), _MOST_ALIKE)
    return float(((1 + usual) / (1 - usual)) ** 0.5)


def _measures(
    steps: RankSteps, row: int, without: tuple[Cause, ...] = (), only: Cause | None = None
) -> Amounts:
    """Time of some causes in each step of one rank. Shape (steps,)."""
    table = steps.table_ns[row, steps.own_ns[row] != NONE]
    kept = [only] if only is not None else [one for one in Cause if one not in without]
    values: Amounts = table[:, kept].sum(axis=1).astype(np.float64)
    return values


def _by_median(values: Amounts) -> tuple[float, float]:
    """Median of steps, and its standard error from their scatter."""
    center = float(np.median(values))
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(values - center)))
    return center, _MEDIAN_TO_MEAN * sigma / len(values) ** 0.5


def _by_mean(values: Amounts) -> tuple[float, float]:
    """Mean of steps, which rare events change, too, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5


def _compared(
    centers: Amounts, errors: Amounts, values: list[Amounts], typical: float, tests: int
) -> tuple[Amounts, Amounts]:
    """Excess of each rank over the others' median, and the least significant one. (ranks,) each."""
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
