"""Columns that do not fit are refused."""

import numpy as np
import pytest

from opscope import _native


def time_of_threads(rows, causes=2, steps=0, row=0):
    none, spans = np.zeros(0, dtype=np.int64), np.array([0, 5])
    thread = (np.array(rows, dtype=np.int32), none, None, True)
    some = np.zeros(steps, dtype=np.int64)
    return _native.TimeOfThreads(
        spans,
        spans,
        np.full(2, -1, dtype=np.int32),
        np.zeros(causes, dtype=np.int8),
        [thread],
        (some, some, some + row),
        none,
        none,
        0,
        9,
        0,
    )


def test_what_refers_to_rows_that_are_not_there_is_refused():
    assert len(time_of_threads([0, 1]).sums()) == 1
    for damaged in (
        lambda: time_of_threads([0, 2]),
        lambda: time_of_threads([-1]),
        lambda: time_of_threads([0], causes=3),
        lambda: time_of_threads([0], steps=1, row=1),
        lambda: _native.rows_by_line(np.array([0, 1], dtype=np.int32), 1),
        lambda: _native.nest_on_lines(
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.array([-1], dtype=np.int32),
            np.array([-1], dtype=np.int32),
            1,
            None,
        ),
    ):
        with pytest.raises(ValueError):
            damaged()
    with pytest.raises(IndexError):
        time_of_threads([0]).pieces(1, [0])
