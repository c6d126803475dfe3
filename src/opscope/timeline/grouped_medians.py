"""Medians of the members of groups, all groups at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native

Values = npt.NDArray[np.int64]


def medians(values: Values, group: npt.NDArray[np.integer[Any]], groups: int) -> Values:
    """The lower of the two middle values of every group. Shape (groups,).

    Args:
        values: of any order. Shape (values,).
        group: of each value, below ``groups``.
        groups: how many there are. Of one without values the result means nothing.
    """
    of = np.ascontiguousarray(group, dtype=np.int64)
    return _native.group_medians(np.ascontiguousarray(values, dtype=np.int64), of, groups)
