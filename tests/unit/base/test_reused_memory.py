"""Arrays in the memory of those that were dropped, and what is left of it afterwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.base.reused_memory import reusing_memory

COUNT = 1 << 18
"""Of 8 bytes each: as large as what is used again."""

Array = npt.NDArray[np.float64]


def kept_bytes() -> int:
    return _native.reused_memory()[1]


def used_bytes() -> int:
    return _native.reused_memory()[0]


def make() -> Array:
    return np.arange(COUNT, dtype=np.float64)


@reusing_memory
def make_and_drop() -> tuple[Array, int]:
    first = make()
    address = first.ctypes.data
    del first
    kept = kept_bytes()
    second = make()
    assert second.ctypes.data == address
    return second, kept


def test_an_array_takes_the_memory_of_the_one_before_and_outlives_the_function() -> None:
    used = used_bytes()
    array, kept = make_and_drop()
    assert kept >= COUNT * 8
    assert kept_bytes() == 0
    assert used_bytes() >= used + COUNT * 8
    np.testing.assert_array_equal(array, make())
    del array
    assert used_bytes() == used
