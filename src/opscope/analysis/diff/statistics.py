"""Difference of means between two sides, with confidence interval and p-value.

Steps of one recording say little about the next one, which has other memory addresses, CPUs and
neighbours. So with three recordings per side or more, Welch's test compares recordings. Few
recordings estimate their variance badly, so an expected variance counts as some more recordings
(after G. Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). With fewer
recordings, their variance is unknown: blocks of steps count as recordings, and a difference must
exceed that between blocks and that between recordings of any program. The step as a whole is
compared by the ratios of paired recordings, which met the same other programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, sqrt

import numpy as np

from opscope.timeline.arrays import Amounts, Flags

_SMALLEST = 1e-300
_CLOSE = 1e-14


def two_sided_p(t: float, degrees: float) -> float:
    """Probability of a value at least as far from 0 as ``t`` without any difference."""
    if degrees <= 0:
        return 1.0
    if t in (inf, -inf):
        return 0.0
    return _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


@lru_cache(maxsize=4096)
def two_sided_t(p: float, degrees: float) -> float:
    """Value exceeded in either direction with probability ``p``; infinite for no degrees."""
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
    """:func:`two_sided_p` for infinite degrees of freedom."""
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
"""False discovery rate: the share of reported changes that may be wrong. Without any change, the
probability of a false report."""


def discoveries(p_values: Amounts, share: float = FALSE_DISCOVERIES) -> Flags:
    """Which p-values are discoveries, by the procedure of Benjamini and Hochberg.

    Y. Benjamini, Y. Hochberg: Controlling the False Discovery Rate, Journal of the Royal
    Statistical Society B 57 (1995). Valid for independent comparisons and for some dependent ones,
    as a module and its content (Y. Benjamini, D. Yekutieli, Annals of Statistics 29, 2001).
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
ENOUGH_RECORDINGS = 3  # recordings of each side needed to estimate their variance
_LEAST_SPREAD = 0.005
"""Minimum standard deviation, as a share of a time: better agreement is chance."""

_WORTH_OF_UNKNOWN = 3  # weight of the expected variance, in recordings


@dataclass(frozen=True)
class Unknown:
    """Assumed difference of recordings, if there are too few to estimate it."""

    share: float  # standard deviation, as a share of a time
    noise_ns: float = 0.0  # additional constant part


_CONTRADICTING = 2.0  # standard deviations between measures of one time
_OF_PROCESSES = 0.015  # expected standard deviation of the ratio of two processes of one program


@dataclass(frozen=True)
class Estimate:
    """One quantity on both sides, per step."""

    a: float  # mean of the first side
    b: float  # mean of the second side
    error: float  # standard error of the difference
    degrees: float  # degrees of freedom

    @property
    def change(self) -> float:
        """Second side minus first side."""
        return self.b - self.a

    @property
    def margin(self) -> float:
        """Half of the 95 % confidence interval of the change."""
        return self.error * two_sided_t(1 - CONFIDENCE, self.degrees) if self.error else 0.0

    @property
    def p_value(self) -> float:
        """Probability of such a difference without any change."""
        if not self.error:
            return 1.0 if self.change == 0 else 0.0
        return two_sided_p(self.change / self.error, self.degrees)


@dataclass(frozen=True, eq=False)
class Sample:
    """One quantity on one side."""

    recordings: Amounts  # mean of each recording, shape (recordings,)
    spread: float  # largest standard deviation of blocks within a recording
    blocks: int  # smallest number of blocks of a recording

    @property
    def mean(self) -> float:
        """Mean over recordings with equal weights."""
        return float(self.recordings.mean())


def sample_of(blocks: Sequence[Amounts]) -> Sample:
    """Sample of the blocks of each recording."""
    means = np.array([one.mean() for one in blocks])
    spread = max((float(one.std(ddof=1)) for one in blocks if len(one) > 1), default=0.0)
    return Sample(means, spread, min(len(one) for one in blocks))


def estimate(a: Sample, b: Sample, unknown: Unknown) -> Estimate:
    """Compare two sides; ``unknown`` is the expected difference of recordings.

    With enough recordings it is ignored if they alone give a smaller uncertainty.
    """
    ways = [[_of_blocks(side, unknown) for side in (a, b)]]
    if min(len(a.recordings), len(b.recordings)) >= ENOUGH_RECORDINGS:
        ways = [
            [_of_recordings(side, unknown, worth) for side in (a, b)]
            for worth in (0, _WORTH_OF_UNKNOWN)
        ]
    error, degrees = min((_welch(sides) for sides in ways), key=_uncertainty)
    return Estimate(a.mean, b.mean, error, degrees)


def estimate_rounds(a: Amounts, b: Amounts) -> Estimate:
    """Compare sides round by round: recordings of a round met the same other programs, so their
    ratio varies less than either.

    Args:
        a: measures of the same time, nanoseconds. The less the ratios of one vary between rounds,
            the more it counts. Shape (rounds, measures), 2 rounds or more.
        b: the same for the other side.
    """
    ratios = np.log(b) - np.log(a)
    weight = 1 / (ratios.var(axis=0, ddof=1) + _OF_PROCESSES**2)
    weight /= weight.sum()
    ratio, rounds = ratios @ weight, len(ratios)
    degrees = rounds - 1 + _WORTH_OF_UNKNOWN
    expected = _WORTH_OF_UNKNOWN * _OF_PROCESSES**2
    variance = (float(ratio.var()) * rounds + expected) / degrees / rounds
    # Measures that contradict each other by more than their noise are all doubtful.
    each, of_each = ratios.mean(axis=0), ratios.var(axis=0, ddof=1) + _OF_PROCESSES**2
    noise = _CONTRADICTING**2 * float(weight @ of_each) / rounds
    apart = float(weight @ (each - weight @ each) ** 2) - noise
    error = sqrt(variance + max(apart, 0.0))
    before = exp(float(np.log(a).mean(axis=0) @ weight))
    after = before * exp(float(ratio.mean()))
    return Estimate(before, after, after * error, degrees)


def _of_blocks(side: Sample, unknown: Unknown) -> tuple[float, int]:
    """Variance of the mean and its degrees of freedom, with blocks in place of recordings."""
    return _expected(side, unknown) / len(side.recordings), side.blocks - 1


def _of_recordings(side: Sample, unknown: Unknown, worth: int) -> tuple[float, int]:
    """Variance of the mean over recordings; the expected variance counts as ``worth`` of them."""
    free = len(side.recordings) - 1
    seen = max(float(side.recordings.var(ddof=1)), (_LEAST_SPREAD * side.mean) ** 2)
    variance = (seen * free + _expected(side, unknown) * worth) / (free + worth)
    return variance / len(side.recordings), free + worth


def _expected(side: Sample, unknown: Unknown) -> float:
    """Expected variance between recordings."""
    return side.spread**2 + (unknown.share * side.mean) ** 2 + unknown.noise_ns**2


def _welch(sides: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Standard error and degrees of freedom (Welch and Satterthwaite)."""
    total = sum(variance for variance, _ in sides)
    if not total or min(degrees for _, degrees in sides) <= 0:
        return sqrt(total), 0.0
    return sqrt(total), total * total / sum(v * v / d for v, d in sides)


def _uncertainty(way: tuple[float, float]) -> float:
    """Margin of a difference at p = 0.001, because many are compared."""
    error, degrees = way
    return error * two_sided_t(0.001, round(degrees, 1)) if error else 0.0
