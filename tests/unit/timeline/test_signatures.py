"""Signatures: equal for equal arguments, different for different ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.analysis.torch_listing.argument_lists import plain_shapes
from opscope.timeline.signatures import (
    first_of_each,
    medians,
    scalar_signatures,
    shape_signatures,
)
from opscope.timeline.tree.arguments import Arguments
from support.build_trace import build_trace, span, tensor

argument = st.one_of(
    st.lists(st.integers(0, 3), max_size=3).map(lambda sizes: tensor(*sizes)),
    st.lists(st.integers(1, 3).map(tensor), min_size=1, max_size=2),
    st.integers(0, 2),
)


@given(st.lists(st.lists(argument, max_size=3), min_size=1, max_size=12))
def test_shape_signatures_are_equal_exactly_where_the_shapes_shown_are(calls):
    trace = build_trace([span("f", i, i + 1, inputs=inputs) for i, inputs in enumerate(calls)])
    arguments = Arguments(trace)
    shown = [str(plain_shapes(arguments.inputs(event))) for event in range(len(calls))]

    signature = shape_signatures(trace)

    for a in range(len(calls)):
        for b in range(len(calls)):
            assert (signature[a] == signature[b]) == (shown[a] == shown[b])


def test_scalar_values_and_their_positions_count():
    inputs = [[1, 2], [2, 1], [1, 2], [1], []]
    trace = build_trace([span("f", i, i + 1, inputs=row) for i, row in enumerate(inputs)])

    signature = scalar_signatures(trace)

    assert signature[0] == signature[2]
    assert len(set(signature.tolist())) == 4 and signature[4] == 0


def test_only_wanted_events_are_worked_out():
    trace = build_trace([span("f", i, i + 1, inputs=[tensor(2), 3]) for i in range(3)])
    wanted = np.array([False, True, False])

    assert (shape_signatures(trace, wanted) != 0).tolist() == [False, True, False]
    assert (scalar_signatures(trace, wanted) != 0).tolist() == [False, True, False]


def test_first_of_each_numbers_keys_by_first_appearance():
    group, first = first_of_each(np.array([9, 4, 9, 7, 4], dtype=np.uint64))

    assert group.tolist() == [0, 1, 0, 2, 1]
    assert first.tolist() == [0, 1, 3]


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
