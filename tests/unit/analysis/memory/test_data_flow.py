"""Timelines: devices, and what every category held when."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.memory.data_flow import (
    BEFORE_RECORDING,
    SHOWN_CATEGORIES,
    Action,
    Category,
    MemoryTimeline,
    sizes_by_category,
)
from opscope.errors import UsageError


def timeline(*actions):
    """Of (time, action, size, category, category after, device type, device index)."""
    rows = [(*a, 0, -1) if len(a) == 5 else a for a in actions]
    time, action, size, category, after, kind, index = zip(*rows, strict=True) if rows else [()] * 7
    return MemoryTimeline(
        time_ns=np.array(time, dtype=np.int64),
        action=np.array(action, dtype=np.uint8),
        block=np.zeros(len(rows), dtype=np.int32),
        version=np.zeros(len(rows), dtype=np.int32),
        size_bytes=np.array(size, dtype=np.int64),
        category=np.array(category, dtype=np.uint8),
        category_after=np.array(after, dtype=np.uint8),
        device_type=np.array(kind, dtype=np.int8),
        device_index=np.array(index, dtype=np.int8),
    )


def held(sizes, row, category):
    return int(sizes.size_bytes[row, SHOWN_CATEGORIES.index(category)])


def test_what_was_there_before_counts_from_the_first_moment():
    sizes = sizes_by_category(
        timeline(
            (BEFORE_RECORDING, Action.PREEXISTING, 100, Category.PARAMETER, Category.PARAMETER),
            (5_000, Action.CREATE, 10, Category.ACTIVATION, Category.ACTIVATION),
            (9_000, Action.DESTROY, 10, Category.ACTIVATION, Category.ACTIVATION),
        )
    )

    assert sizes.time_us == [5, 5, 9]
    assert [held(sizes, row, Category.PARAMETER) for row in range(3)] == [100, 100, 100]
    assert [held(sizes, row, Category.ACTIVATION) for row in range(3)] == [0, 10, 0]


def test_a_change_moves_bytes_from_one_category_to_another():
    sizes = sizes_by_category(
        timeline(
            (1_000, Action.CREATE, 8, Category.AUTOGRAD_DETAIL, Category.AUTOGRAD_DETAIL),
            (2_000, Action.INCREMENT_VERSION, 8, Category.AUTOGRAD_DETAIL, Category.UNKNOWN),
        )
    )

    assert held(sizes, 1, Category.AUTOGRAD_DETAIL) == 0
    assert held(sizes, 1, Category.UNKNOWN) == 8


def test_actions_of_one_microsecond_are_one_row():
    create = (Action.CREATE, 8, Category.INPUT, Category.INPUT)

    sizes = sizes_by_category(timeline((1_100, *create), (1_200, *create), (2_000, *create)))

    assert sizes.time_us == [1, 2]
    assert [held(sizes, row, Category.INPUT) for row in range(2)] == [16, 24]


def test_times_are_divided_as_torch_divides_them():
    late = 1_700_000_000_000_000_999  # in floating point, its microseconds round up

    sizes = sizes_by_category(timeline((late, Action.CREATE, 1, Category.INPUT, Category.INPUT)))

    assert sizes.time_us == [int(late / 1000)] == [1_700_000_000_000_001]


def test_only_what_was_there_before_keeps_its_mark():
    assert sizes_by_category(timeline()).time_us == []
    before = (BEFORE_RECORDING, Action.PREEXISTING, 1, Category.UNKNOWN, Category.UNKNOWN)
    assert sizes_by_category(timeline(before)).time_us == [BEFORE_RECORDING]


def test_devices_are_told_apart():
    line = timeline(
        (1, Action.CREATE, 8, 0, 0, 0, -1),
        (2, Action.CREATE, 16, 0, 0, 1, 0),
        (3, Action.CREATE, 32, 0, 0, 1, 1),
    )

    assert line.devices == ["cpu", "cuda:0", "cuda:1"]
    assert line.on("cuda:1").size_bytes.tolist() == [32]
    assert line.on("cuda").size_bytes.tolist() == [16]
    with pytest.raises(UsageError, match=r"'xpu:0'.*cpu, cuda:0, cuda:1"):
        line.on("xpu:0")
    with pytest.raises(UsageError, match="no device at all"):
        timeline().on("cpu")
