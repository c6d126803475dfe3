"""Numbers of values: the same for operators that do the same to what has the same number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope import _native
from opscope.analysis.signatures import mix


def solve(base, unique, event, producer, memory, shape, place, rounds):
    """Round by round, every operator anew."""
    itself = mix(np.arange(len(base))) ^ np.uint64(1)
    number, constant = itself, ~unique
    for _ in range(rounds):
        source = np.where(producer >= 0, number[producer], memory)
        total = np.zeros(len(base), dtype=np.uint64)
        np.add.at(total, event, mix((source ^ shape) + place))
        kept = constant.copy()
        kept[event[(producer < 0) | ~constant[producer]]] = False
        number, constant = np.where(unique, itself, mix(base ^ total)), kept
    return number, constant


@st.composite
def programs(draw):
    """Up to twelve operators, whose arguments any of them made: also later ones, in a circle."""
    operators, arguments = draw(st.integers(1, 12)), draw(st.integers(0, 24))
    row = st.integers(0, operators - 1)

    def column(values, size, dtype):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype=dtype)

    few = st.integers(0, 2)
    return (
        column(few, operators, np.uint64),
        column(st.booleans(), operators, np.bool_),
        column(row, arguments, np.int64),
        column(st.one_of(row, st.just(-1)), arguments, np.int64),
        *(column(few, arguments, np.uint64) for _ in range(3)),
    )


@given(programs(), st.integers(0, 16))
def test_numbers_are_those_of_going_over_all_in_every_round(program, rounds):
    found, expected = _native.equal_values(*program, rounds), solve(*program, rounds)
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].tolist() == expected[1].tolist()


@pytest.mark.parametrize("event, producer", [(2, -1), (-1, -1), (0, 2)])
def test_an_operator_that_there_is_not_is_refused(event, producer):
    columns = [np.array([number], dtype=np.int64) for number in (event, producer)]
    rest = [np.zeros(1, dtype=np.uint64) for _ in range(3)]
    with pytest.raises(IndexError):
        _native.equal_values(np.zeros(2, np.uint64), np.zeros(2, np.bool_), *columns, *rest, 3)
