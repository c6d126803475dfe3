"""Array answers about forests agree with walking the parents one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.timeline.tree.ancestry import (
    depths,
    levels,
    minus_children,
    nearest_ancestor,
    outermost_ancestor,
    subtree_sums,
)


@st.composite
def forests(draw):
    """A parent column: each row's parent is an earlier row, or none."""
    size = draw(st.integers(0, 40))
    parent = [draw(st.integers(-1, row - 1)) for row in range(size)]
    return np.array(parent, dtype=np.int32)


def ancestors(parent, row):
    found = []
    while parent[row] >= 0:
        row = int(parent[row])
        found.append(row)
    return found


@given(forests(), st.data())
def test_nearest_ancestor_is_the_first_kept_one_on_the_way_up(parent, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent)))
    keep = np.array(flags, dtype=bool)

    expected = [next((a for a in ancestors(parent, r) if keep[a]), -1) for r in range(len(parent))]

    assert nearest_ancestor(parent, keep).tolist() == expected


@given(forests(), st.data())
def test_outermost_ancestor_is_the_last_kept_one_on_the_way_up(parent, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent)))
    keep = np.array(flags, dtype=bool)
    found = outermost_ancestor(parent, keep).tolist()
    for row in range(len(parent)):
        kept = [one for one in (row, *ancestors(parent, row)) if keep[one]]
        assert found[row] == (kept[-1] if kept else -1)


@given(forests())
def test_depth_is_the_number_of_ancestors(parent):
    assert depths(parent).tolist() == [len(ancestors(parent, r)) for r in range(len(parent))]


@given(forests(), st.data())
def test_subtree_sums_add_every_value_to_all_ancestors(parent, data):
    values = data.draw(
        st.lists(st.integers(-(2**40), 2**40), min_size=len(parent), max_size=len(parent))
    )
    own = np.array(values, dtype=np.int64)
    expected = own.copy()
    for row in range(len(parent)):
        for ancestor in ancestors(parent, row):
            expected[ancestor] += own[row]

    assert subtree_sums(parent, own).tolist() == expected.tolist()


def test_the_column_given_is_left_alone():
    parent = np.array([-1, 0, 1, 2], dtype=np.int32)
    parent.flags.writeable = False

    nearest_ancestor(parent, np.array([True, False, False, False]))
    depths(parent)

    assert parent.tolist() == [-1, 0, 1, 2]


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
    assert levels(np.array([], dtype=np.int32)) == []


@st.composite
def shuffled_forests(draw):
    """A parent column in any order, the rows' places, and the same forest with parents first."""
    size = draw(st.integers(0, 30))
    parent = [draw(st.integers(-1, row - 1)) for row in range(size)]
    place = draw(st.permutations(range(size)))
    moved = np.full(size, -1, dtype=draw(st.sampled_from([np.int32, np.int64])))
    for row in range(size):
        moved[place[row]] = place[parent[row]] if parent[row] >= 0 else -1
    return np.array(parent, dtype=np.int32), np.array(place, dtype=np.int64), moved


@given(shuffled_forests(), st.data())
def test_the_order_of_rows_does_not_matter(forest, data):
    parent, place, moved = forest
    flags = st.lists(st.booleans(), min_size=len(parent), max_size=len(parent))
    keep = np.array(data.draw(flags), dtype=bool)
    own = np.arange(len(parent), dtype=np.int64) * 3 - 5

    def at_their_places(values):
        result = np.empty(len(place), dtype=values.dtype)
        result[place] = values
        return result

    moved_keep, moved_own = at_their_places(keep), at_their_places(own)
    nearest = nearest_ancestor(parent, keep)
    expected = at_their_places(np.where(nearest >= 0, np.append(place, -1)[nearest], -1))
    assert nearest_ancestor(moved, moved_keep).tolist() == expected.tolist()
    assert depths(moved).tolist() == at_their_places(depths(parent)).tolist()
    sums = at_their_places(subtree_sums(parent, own))
    assert subtree_sums(moved, moved_own).tolist() == sums.tolist()
    rest = at_their_places(minus_children(parent, own, keep))
    assert minus_children(moved, moved_own, moved_keep).tolist() == rest.tolist()


def test_sums_are_exact_beyond_what_a_float_holds():
    parent = np.array([-1, 0, 0], dtype=np.int32)
    value = np.array([2**60, 1, 2], dtype=np.int64)
    assert minus_children(parent, value).tolist() == [2**60 - 3, 1, 2]
    assert subtree_sums(parent, value).tolist() == [2**60 + 3, 1, 2]


def test_columns_with_gaps_or_of_one_value_are_taken_too():
    parent = np.array([-1, 7, 0, 7, 1, 7], dtype=np.int32)[::2]
    keep = np.broadcast_to(np.array([True]), 3)
    assert nearest_ancestor(parent, keep).tolist() == [-1, 0, 1]


def test_a_circle_is_refused():
    parent = np.array([1, 2, 0], dtype=np.int32)
    with pytest.raises(ValueError, match="its own ancestor"):
        depths(parent)
    with pytest.raises(ValueError, match="its own ancestor"):
        nearest_ancestor(parent, np.zeros(3, dtype=bool))


def test_a_parent_that_is_no_row_is_refused():
    parent = np.array([-1, 5], dtype=np.int32)
    for question in (depths, lambda p: minus_children(p, np.zeros(2, dtype=np.int64))):
        with pytest.raises(IndexError, match="no row of the table"):
            question(parent)


def test_columns_of_one_table_are_as_long_as_each_other():
    with pytest.raises(ValueError, match="different lengths"):
        nearest_ancestor(np.array([-1, 0], dtype=np.int32), np.array([True]))
