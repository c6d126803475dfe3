"""Rows in order and groups of equal ones, as NumPy finds them by comparing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from opscope.columns.row_groups import group_rows, order_rows

LARGEST = np.iinfo(np.int64).max
VALUES = st.one_of(
    st.integers(-2, 3),
    st.integers(0, 2**20),
    st.sampled_from([-LARGEST - 1, -LARGEST, LARGEST - 1, LARGEST]),
)


@st.composite
def tables(draw):
    """One to four columns of up to forty rows, most of them with equal rows."""
    rows, columns = draw(st.integers(0, 40)), draw(st.integers(1, 4))
    column = arrays.arrays(np.int64, rows, elements=VALUES)
    return [draw(column) for _ in range(columns)]


@settings(max_examples=40)
@given(tables())
def test_groups_are_those_that_numpy_finds(columns):
    distinct, first, group, count = np.unique(
        np.stack(columns), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    found = group_rows(*columns)
    assert [column.tolist() for column in found.columns] == distinct.tolist()
    assert found.group.tolist() == group.reshape(-1).tolist()
    assert found.first.tolist() == first.tolist()
    assert found.count.tolist() == count.tolist()
    assert len(found) == distinct.shape[1]


@pytest.mark.parametrize(
    ("spread", "distinct"),
    [(1, 3), (40, 5_000), (2**16, 200_000), (2**40, 5_000), (2**62, 200_000)],
)
def test_many_rows(spread, distinct):
    """So many that values are ranked, counted in a table, or sorted in one word or several."""
    random = np.random.default_rng(distinct)
    known = random.integers(-spread, spread, size=distinct)
    columns = [known[random.integers(distinct, size=100_000)], random.integers(0, 3, 100_000)]
    columns.append(columns[0][::-1])
    found, order = group_rows(*columns), order_rows(*columns)
    assert order.tolist() == np.lexsort(columns[::-1]).tolist()
    rows = np.stack(columns, axis=1)
    assert (np.stack(found.columns, axis=1)[found.group] == rows).all()
    starts = np.append(True, (np.diff(rows[order], axis=0) != 0).any(axis=1))
    assert found.group[order].tolist() == (np.cumsum(starts) - 1).tolist()
    assert found.first.tolist() == order[starts].tolist()
    assert found.count.tolist() == np.bincount(found.group).tolist()
