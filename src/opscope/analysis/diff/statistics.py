"""Difference of means between two sides, with confidence interval and p-value.

Steps of one recording tell little about the next recording: memory lies elsewhere, the processor
is another, the neighbours do something else. So where there are three recordings a side or more, it
is recordings that are compared, by Welch's test. A few tell their variance badly; so what is
expected of it counts as well, like some more recordings (after G. Smyth, Statistical Applications
in Genetics and Molecular Biology 3, 2004). With fewer it is unknown how much recordings of this
program differ; then a block of steps counts as much as a recording, so that a difference has to be
larger than those between blocks, and than what recordings of any program differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, sqrt

import numpy as np

from opscope.timeline.arrays import Amounts, Flags, Values

_SMALLEST = 1e-300
_CLOSE = 1e-14


def two_sided_p(t: float, degrees: float) -> float:
    """Probability of a value at least as far from 0 as ``t`` where there is no difference."""
    if degrees <= 0:
        return 1.0
    if t in (inf, -inf):
        return 0.0
    return _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


@lru_cache(maxsize=4096)
def two_sided_t(p: float, degrees: float) -> float:
    """What is exceeded, in either direction, with probability ``p``; infinite for no degrees."""
    if degrees <= 0:
        return inf
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > p and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > p else (low, middle)
    return high


def normal_p(z: float) -> float:
    """As :func:`two_sided_p` with as many degrees as one likes."""
    return erfc(abs(z) / sqrt(2))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a
    return front * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction, evaluated from its beginning (Lentz)."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 300):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            result *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST


FALSE_DISCOVERIES = 0.01
"""False discovery rate: the share of reported changes that may be wrong. Without any change it is
the probability of a false report."""


def discoveries(p_values: Amounts, share: float = FALSE_DISCOVERIES) -> Flags:
    """Which are true differences, by the procedure of Benjamini and Hochberg.

    Y. Benjamini, Y. Hochberg: Controlling the False Discovery Rate, Journal of the Royal
    Statistical Society B 57 (1995). It holds for comparisons that are independent or go together,
    as a module and what runs in it do (Y. Benjamini, D. Yekutieli, Annals of Statistics 29, 2001).
    """
    count = len(p_values)
    if not count:
        return np.zeros(0, dtype=np.bool_)
    order = np.argsort(p_values, kind="stable")
    below = np.flatnonzero(p_values[order] <= share * np.arange(1, count + 1) / count)
    found = np.zeros(count, dtype=np.bool_)
    if below.size:
        found[order[: below[-1] + 1]] = True
    return found


CONFIDENCE = 0.95
ENOUGH_RECORDINGS = 3
"""Recordings of each side needed to estimate their variance."""

_LEAST_SPREAD = 0.005
"""Of a time: recordings that agree better do so by chance."""

_WORTH_OF_UNKNOWN = 3
"""Recordings: for so many counts what is expected, beside those that there are."""


@dataclass(frozen=True)
class Unknown:
    """How much recordings are taken to differ where there are not enough to see it."""

    share: float  # of a time, standard deviation
    noise_ns: float = 0.0  # whatever the time


_UNDISTURBED = 0.02
"""Of the steps of a recording: so many are taken to run undisturbed."""

_AT_BEST = 0.01
"""Of a time, standard deviation: undisturbed recordings of one program differ by that."""

_OF_THE_FASTEST = 1.5
"""The faster recordings agree better than all: their variance is multiplied by this. Of equal
programs, 3 in 100 are said to differ beside a process that computes in bursts, and 10 in 100 where
recordings as a whole vary by 5 %."""


@dataclass(frozen=True)
class Estimate:
    """One quantity on both sides, a step."""

    a: float  # mean of the first
    b: float  # mean of the second
    error: float  # standard error of the difference
    degrees: float  # of freedom of that

    @property
    def change(self) -> float:
        """How much more the second is."""
        return self.b - self.a

    @property
    def margin(self) -> float:
        """How far the change may be off, with 95 % confidence."""
        return self.error * two_sided_t(1 - CONFIDENCE, self.degrees) if self.error else 0.0

    @property
    def p_value(self) -> float:
        """How probable such a difference is where there is none."""
        if not self.error:
            return 1.0 if self.change == 0 else 0.0
        return two_sided_p(self.change / self.error, self.degrees)


@dataclass(frozen=True, eq=False)
class Sample:
    """What one side has of one quantity."""

    recordings: Amounts  # the mean of each, shape (recordings,)
    spread: float  # standard deviation of blocks within recordings, as large as in the worst
    blocks: int  # of the recording that has fewest

    @property
    def mean(self) -> float:
        """Over recordings, which count alike."""
        return float(self.recordings.mean())


def sample_of(blocks: Sequence[Amounts]) -> Sample:
    """Of the blocks of each recording."""
    means = np.array([one.mean() for one in blocks])
    spread = max((float(one.std(ddof=1)) for one in blocks if len(one) > 1), default=0.0)
    return Sample(means, spread, min(len(one) for one in blocks))


def estimate(a: Sample, b: Sample, unknown: Unknown) -> Estimate:
    """Compare two sides; ``unknown`` counts where recordings tell little of how they differ.

    Where there are enough of them, what they say alone counts if that is the more certain.
    """
    ways = [[_of_blocks(side, unknown) for side in (a, b)]]
    if min(len(a.recordings), len(b.recordings)) >= ENOUGH_RECORDINGS:
        ways = [
            [_of_recordings(side, unknown, worth) for side in (a, b)]
            for worth in (0, _WORTH_OF_UNKNOWN)
        ]
    error, degrees = min((_welch(sides) for sides in ways), key=_uncertainty)
    return Estimate(a.mean, b.mean, error, degrees)


def estimate_undisturbed(a: Sequence[Values], b: Sequence[Values]) -> Estimate:
    """Compare what a step takes where no other program disturbs it.

    Others that run on the machine only make steps longer. So a recording counts with the fastest
    fiftieth of its steps, and a side with the faster half of its recordings.

    Args:
        a: times of the steps of each recording of one side, in nanoseconds; of 3 or more.
        b: of the other side.
    """
    means, ways = [], []
    for recordings in (a, b):
        fastest = np.sort([np.quantile(took, _UNDISTURBED) for took in recordings])
        kept = fastest[: max(ENOUGH_RECORDINGS, (len(fastest) + 1) // 2)]
        spread = sqrt(_OF_THE_FASTEST if len(kept) < len(fastest) else 1) * kept.std(ddof=1)
        variance = max(spread, _AT_BEST * kept.mean()) ** 2 / len(kept)
        means.append(float(kept.mean()))
        ways.append((float(variance), len(kept) - 1 + _WORTH_OF_UNKNOWN))
    error, degrees = _welch(ways)
    return Estimate(means[0], means[1], error, degrees)


def _of_blocks(side: Sample, unknown: Unknown) -> tuple[float, int]:
    """Variance of the mean, and its degrees of freedom, where blocks stand for recordings."""
    return _expected(side, unknown) / len(side.recordings), side.blocks - 1


def _of_recordings(side: Sample, unknown: Unknown, worth: int) -> tuple[float, int]:
    """The same from what recordings differ by, and ``worth`` recordings of what is expected."""
    free = len(side.recordings) - 1
    seen = max(float(side.recordings.var(ddof=1)), (_LEAST_SPREAD * side.mean) ** 2)
    variance = (seen * free + _expected(side, unknown) * worth) / (free + worth)
    return variance / len(side.recordings), free + worth


def _expected(side: Sample, unknown: Unknown) -> float:
    """Variance between recordings, before they are looked at."""
    return side.spread**2 + (unknown.share * side.mean) ** 2 + unknown.noise_ns**2


def _welch(sides: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Standard error and degrees of freedom (Welch and Satterthwaite)."""
    total = sum(variance for variance, _ in sides)
    if not total or min(degrees for _, degrees in sides) <= 0:
        return sqrt(total), 0.0
    return sqrt(total), total * total / sum(v * v / d for v, d in sides)


def _uncertainty(way: tuple[float, float]) -> float:
    """How far a difference may be off; judged where many are compared, so by a small chance."""
    error, degrees = way
    return error * two_sided_t(0.001, round(degrees, 1)) if error else 0.0
