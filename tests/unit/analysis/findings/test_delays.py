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


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-1, 3)), max_size=30))
def test_usual_is_the_median_of_those_alike_where_one_is_long(
    stretches: list[tuple[int, int]],
) -> None:
    labels = [0, 1, 1, 0]
    alike: dict[int, list[int]] = {}
    for length, event in stretches:
        alike.setdefault(labels[event] if event >= 0 else 2, []).append(length)
    expected = [
        median_low(group) if max(group) > 30 else 0
        for group in (alike[labels[event] if event >= 0 else 2] for _, event in stretches)
    ]
    found = _native.usual_lengths(
        column([length for length, _ in stretches]),
        column([event for _, event in stretches]),
        column(labels, np.int32),
        2,
        30,
    )
    assert found.tolist() == expected


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
    assert waited([0, 100, 400, 500], [100, 100, 100], [0], [220], 500) == [20, 180, 20]


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
