"""Timelines: devices, and what every category held when."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.memory.data_flow import (
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


def test_times_are_divided_as_torch_divides_them():
    late = 1_700_000_000_000_000_999  # in floating point, its microseconds round up

    sizes = sizes_by_category(timeline((late, Action.CREATE, 1, Category.INPUT, Category.INPUT)))

    assert sizes.time_us == [int(late / 1000)] == [1_700_000_000_000_001]


def test_devices_are_distinguished():
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
