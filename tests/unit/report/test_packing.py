"""Columns survive the way into the page."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.report.packing import Packer, differences
from support.read_report import unpack


@given(st.lists(st.lists(st.integers(0, 2**53)), max_size=4))
def test_columns_come_back(columns):
    packer = Packer()
    for i, values in enumerate(columns):
        packer.add(str(i), np.array(values, dtype=np.int64))
    found = unpack(packer.finish(), packer.directory)
    assert [found[str(i)].tolist() for i in range(len(columns))] == columns


@pytest.mark.parametrize(("largest", "planes"), [(0, 0), (255, 1), (256, 2), (2**40, 6)])
def test_planes_that_are_all_zero_are_left_out(largest, planes):
    packer = Packer()
    packer.add("x", np.array([0, largest]))
    assert packer.directory == [{"name": "x", "count": 2, "planes": planes}]


def test_differences_start_again_where_told():
    values = np.array([10, 12, 15, 3, 4])
    assert differences(values, np.array([0, 3])).tolist() == [10, 2, 3, 3, 1]
