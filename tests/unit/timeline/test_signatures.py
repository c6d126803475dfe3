"""Groups of equal keys."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.timeline.signatures import first_of_each


@pytest.mark.parametrize(
    "keys, groups, first",
    [
        ([], [], []),
        ([3, 1, 3, 2, 1], [0, 1, 0, 2, 1], [0, 1, 3]),
        ([2**64 - 1, 0, 2**64 - 1], [0, 1, 0], [0, 1]),
    ],
)
def test_equal_keys_are_numbered_in_order_of_their_first(keys, groups, first):
    result = first_of_each(np.array(keys, dtype=np.uint64))
    assert [column.tolist() for column in result] == [groups, first]
