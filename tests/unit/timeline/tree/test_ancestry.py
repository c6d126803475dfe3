"""Array answers about forests agree with walking the parents one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.timeline.tree.event_tree import (
    depths,
    levels,
    minus_children,
    nearest_ancestor,
    outermost_ancestor,
    subtree_sums,
)


@st.composite
def forests(draw):
    """A parent column, its rows in any order, and a flag of each row."""
    size = draw(st.integers(0, 40))
    place = draw(st.permutations(range(size)))
    parent = np.full(size, -1, dtype=draw(st.sampled_from([np.int32, np.int64])))
    for row in range(size):
        above = draw(st.integers(-1, row - 1))
        parent[place[row]] = place[above] if above >= 0 else -1
    flags = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return parent, np.array(flags, dtype=bool)


def ancestors(parent, row):
    found = []
    while parent[row] >= 0:
        row = int(parent[row])
        found.append(row)
    return found


@given(forests())
def test_ancestors_are_those_on_the_way_up(forest):
    parent, keep = forest
    parent.flags.writeable = False
    above = [ancestors(parent, row) for row in range(len(parent))]
    kept = [[one for one in rows if keep[one]] for rows in above]
    outermost = [rows[-1] if rows else row if keep[row] else -1 for row, rows in enumerate(kept)]

    assert depths(parent).tolist() == [len(rows) for rows in above]
    assert nearest_ancestor(parent, keep).tolist() == [rows[0] if rows else -1 for rows in kept]
    assert outermost_ancestor(parent, keep).tolist() == outermost


@given(forests())
def test_values_add_up_to_every_ancestor_and_are_taken_off_the_parent(forest):
    parent, keep = forest
    own = np.arange(len(parent), dtype=np.int64) * 2**50 - 5  # beyond what a float holds
    sums, rest = own.copy(), own.copy()
    for row in range(len(parent)):
        for ancestor in ancestors(parent, row):
            sums[ancestor] += own[row]
        if parent[row] >= 0 and keep[row]:
            rest[parent[row]] -= own[row]

    assert subtree_sums(parent, own).tolist() == sums.tolist()
    assert minus_children(parent, own, keep).tolist() == rest.tolist()


def test_a_chain_of_100_000_levels():
    parent = np.arange(-1, 99_999, dtype=np.int32)
    only_root = np.zeros(100_000, dtype=bool)
    only_root[0] = True

    assert depths(parent)[-1] == 99_999
    assert nearest_ancestor(parent, only_root)[1:].tolist() == [0] * 99_999
    assert subtree_sums(parent, np.ones(100_000, dtype=np.int64))[0] == 100_000


def test_levels_hold_every_row_once_by_depth():
    depth = np.array([0, 1, 1, 0, 2], dtype=np.int32)

    assert [level.tolist() for level in levels(depth)] == [[0, 3], [1, 2], [4]]
    assert levels(depth[:0]) == []


def test_columns_with_gaps_or_of_one_value_are_taken_too():
    parent = np.array([-1, 7, 0, 7, 1, 7], dtype=np.int32)[::2]
    keep = np.broadcast_to(np.array([True]), 3)
    assert nearest_ancestor(parent, keep).tolist() == [-1, 0, 1]


def test_what_is_no_forest_is_refused():
    circle = np.array([1, 2, 0], dtype=np.int32)
    with pytest.raises(ValueError, match="its own ancestor"):
        depths(circle)
    with pytest.raises(ValueError, match="its own ancestor"):
        nearest_ancestor(circle, np.zeros(3, dtype=bool))
    no_row = np.array([-1, 5], dtype=np.int32)
    for question in (depths, lambda p: minus_children(p, np.zeros(2, dtype=np.int64))):
        with pytest.raises(IndexError, match="no row of the table"):
            question(no_row)
    with pytest.raises(ValueError, match="different lengths"):
        nearest_ancestor(np.array([-1, 0], dtype=np.int32), np.array([True]))
