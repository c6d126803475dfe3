"""Student's t distribution: how far a mean may be off, and how likely a difference is chance.

SciPy has it too, and nothing else of it is needed here.
"""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, sqrt

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
