"""Stretches of a thread: what is said of them, against the same said value by value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from statistics import median_low
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope import _native

TIMES = st.integers(-50, 2_000)
EDGES = st.lists(st.integers(0, 1_000), min_size=1, max_size=30, unique=True).map(sorted)


def column(values: list[Any], dtype: Any = np.int64) -> npt.NDArray[Any]:
    return np.array(values, dtype=dtype)


def usual(stretches: list[tuple[int, int]], labels: list[int]) -> list[int]:
    found = _native.usual_lengths(
        column([length for length, _ in stretches]),
        column([event for _, event in stretches]),
        column(labels, np.int32),
        max(labels) + 1,
        30,
    )
    return [int(length) for length in found]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-1, 3)), max_size=30))
def test_usual_is_the_median_of_those_alike_where_one_is_long(
    stretches: list[tuple[int, int]],
) -> None:
    labels = [0, 1, 1, 0]
    own = [labels[event] if event >= 0 else 2 for _, event in stretches]
    pairs = list(zip(own, [2, *own], strict=False))
    expected = []
    for label, pair in zip(own, pairs, strict=True):
        alike = [one[0] for one, other in zip(stretches, own, strict=True) if other == label]
        closer = [one[0] for one, other in zip(stretches, pairs, strict=True) if other == pair]
        known = closer if len(closer) >= 3 else alike
        expected.append(median_low(known) if max(alike) > 30 else 0)
    assert usual(stretches, labels) == expected


def test_a_stretch_is_like_those_that_come_after_the_same() -> None:
    """A call that runs an operator first, and then computes for long: neither is usual of both."""
    call, operator = 0, 1
    once = [(2, call), (5, operator), (700, call), (10, -1)]
    assert usual(once * 4, [0, 1]) == [2, 0, 700, 0] * 4


@pytest.mark.parametrize(("event", "label"), [(2, 0), (0, 3), (0, -1)])
def test_a_stretch_of_nothing_is_refused(event: int, label: int) -> None:
    with pytest.raises(IndexError):
        _native.usual_lengths(column([5]), column([event]), column([label, 0], np.int32), 2, 1)


@given(EDGES, st.lists(st.tuples(TIMES, st.integers(0, 9)), max_size=40), st.booleans())
def test_sums_between_edges(edges: list[int], amounts: list[tuple[int, int]], right: bool) -> None:
    expected = [0.0] * (len(edges) + 1)
    place = bisect_right if right else bisect_left
    for time, amount in amounts:
        expected[place(edges, time)] += amount
    times, values = column([time for time, _ in amounts]), [amount for _, amount in amounts]
    found = _native.sums_between(column(edges), times, column(values, np.float64), right)
    assert found.tolist() == expected


@given(EDGES, st.lists(TIMES, max_size=40), st.data())
def test_a_clock_goes_evenly_between_its_moments(
    moments: list[int], times: list[int], data: st.DataObject
) -> None:
    steps = data.draw(
        st.lists(st.integers(0, 99), min_size=len(moments), max_size=len(moments)), "shown"
    )
    shown = np.cumsum(steps).astype(np.float64)
    found = _native.shown_at(column(moments), shown, column(times))
    expected = np.interp(column(times), column(moments), shown)
    np.testing.assert_array_equal(found, (expected + 0.5).astype(np.int64))


def waited(
    edges: list[int], usual: list[int], start: list[int], delayed: list[int], end: int
) -> list[float]:
    found = _native.delays(
        column(edges), column(usual), column(start), column(delayed), end, 1.5, 10.0, 0.98
    )
    return [round(value, 6) for value in found.tolist()]


def test_waiting_is_where_a_stretch_took_longer_than_usual() -> None:
    assert waited([0, 100, 400, 500], [100, 100, 100], [0], [150], 500) == [0, 150, 0]


def test_what_was_counted_beyond_that_is_spread() -> None:
    assert waited([0, 100, 400, 500], [100, 100, 100], [0], [230], 500) == [10, 210, 10]


def test_it_is_spread_over_those_that_a_turn_fits_in_first() -> None:
    """Where most are interrupted, the usual has waiting too, and short ones have none."""
    edges, usual = [0, 5, 105, 110, 410], [5, 100, 5, 300]
    assert waited(edges, usual, [0], [200], 410) == [0, 50, 0, 150]
    assert waited(edges, usual, [0], [401], 410) == [4.5, 98.0, 4.5, 294.0]


def test_it_was_where_a_stretch_took_longest_beyond_the_usual() -> None:
    """Another that took longer than those like it did not wait as well."""
    assert waited([0, 160, 1_260, 1_360], [100, 100, 100], [0], [1_000], 1_360) == [0, 1_000, 0]


def test_a_stretch_never_waits_altogether() -> None:
    assert waited([0, 100], [100], [0], [1_000], 100) == [98]


def test_nothing_is_said_of_before_and_after_what_the_kernel_counted() -> None:
    assert waited([0, 100, 200, 300], [1, 1, 1], [100], [50], 200) == [0, 50, 0]


def test_each_reading_has_its_own() -> None:
    edges, usual = [0, 100, 200, 300], [100, 100, 100]
    assert waited(edges, usual, [0, 100, 200], [10, 0, 30], 300) == [10, 0, 30]


@pytest.mark.parametrize(
    "arguments",
    [
        ([0, 1], [1, 1], [0], [1], 1),
        ([0, 1], [1], [0, 1], [1], 1),
    ],
)
def test_columns_that_do_not_fit_are_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"edge|lengths"):
        waited(*arguments)


def test_a_clock_without_a_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="at every moment"):
        _native.shown_at(column([]), column([], np.float64), column([1]))
