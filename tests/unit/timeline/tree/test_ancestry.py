"""Array answers about forests agree with walking the parents one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opscope.timeline.tree.ancestry import (
    depths,
    levels,
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
