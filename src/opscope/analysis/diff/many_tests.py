"""Which of many comparisons count, where some are far apart by chance alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FALSE_DISCOVERIES = 0.01
"""Of what is said to have changed, the share that may be wrong. Where nothing has changed at all,
it is the probability that anything is said to have."""


def discoveries(
    p_values: npt.NDArray[np.float64], share: float = FALSE_DISCOVERIES
) -> npt.NDArray[np.bool_]:
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
