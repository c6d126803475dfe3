"""Functions whose large arrays reuse the memory of freed arrays.

The C library returns the memory of a freed array of many MiB to the kernel, which clears every page
of the next array. For columns of millions of rows that takes as long as computing them. All free
memory is returned at the end of the function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import opscope._native as _native

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def reusing_memory(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap ``function`` so that its arrays, on its thread, reuse memory that it freed."""

    @functools.wraps(function)
    def reusing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return _native.with_reused_memory(function, *args, **kwargs)

    return reusing


_ROWS = 1 << 17
"""1 MiB of 64-bit numbers: small enough that malloc does not map new memory each time."""


def row_blocks(rows: int) -> Iterator[slice]:
    """Slices that cover ``rows`` rows in order, for work on arrays that stay in the cache.

    A full-length array is fresh memory, which the kernel takes longer to clear than the computation
    takes. Arrays of one block reuse heap memory.
    """
    return (slice(first, min(first + _ROWS, rows)) for first in range(0, rows, _ROWS))
