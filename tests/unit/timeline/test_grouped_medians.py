"""Medians of groups, against sorting each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.timeline.grouped_medians import medians


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=40))
def test_the_lower_of_the_two_middle_values(rows):
    group, values = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    found = medians(values, group, 5)
    assert found.shape == (5,)
    for number in set(group.tolist()):
        own = np.sort(values[group == number])
        assert found[number] == own[(len(own) - 1) // 2]


def test_a_value_in_no_group_is_refused():
    with pytest.raises(ValueError, match="not there"):
        medians(np.array([1, 2]), np.array([0, 3]), 3)
