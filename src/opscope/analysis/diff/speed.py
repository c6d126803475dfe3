"""How fast the machine was in each block of steps, as all that ran in it tells together.

A clock that slows down, or a neighbour on the same processor, makes everything take longer by about
the same factor; a change of the program makes one thing take longer. So what most places have in
common is told apart from what a single one has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

_FEWEST_PLACES = 8
"""Of fewer places none can be told from the rest."""

_WORTH_ASKING = 0.002
"""Of a step; what is shorter is noise."""


def speed_factors(time_ns: Times) -> Times:
    """How many times as long as usual everything took in each block: the median over places.

    Args:
        time_ns: of every place in every block of all recordings, shape (places, blocks).

    Returns:
        Shape (blocks,); 1 where there are too few places to tell.
    """
    usual = time_ns.mean(axis=1) if time_ns.size else np.zeros(len(time_ns))
    asked = (usual >= _WORTH_ASKING * usual.sum()) & (time_ns > 0).all(axis=1)
    if asked.sum() < _FEWEST_PLACES:
        return np.ones(time_ns.shape[1])
    ratios = np.log(time_ns[asked] / usual[asked, None])
    factors = np.median(ratios, axis=0)
    return np.asarray(np.exp(factors - factors.mean()), dtype=np.float64)
