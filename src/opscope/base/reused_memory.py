"""Functions whose large arrays take the memory of those that were dropped before.

The C library gives what a dropped array of many MiB held back to the kernel, which clears every
page of the next one: for columns of millions of rows that takes as long as computing them. All that
is free goes back when the function returns, so that the program around it has what it had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from opscope import _native

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def reusing_memory(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Have arrays that ``function`` makes on its thread take the memory of those it dropped."""

    @functools.wraps(function)
    def reusing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return _native.with_reused_memory(function, *args, **kwargs)

    return reusing


_ROWS = 1 << 17
"""A megabyte of 64-bit numbers: less than malloc asks the system for anew each time."""


def row_blocks(rows: int) -> Iterator[slice]:
    """Slices that cover ``rows`` rows, in order, for work whose arrays are to stay in the cache.

    An array as long as a large trace is fresh memory, which the system takes longer to clear than
    computing it takes; the arrays of a block are the heap's, again and again.
    """
    return (slice(first, min(first + _ROWS, rows)) for first in range(0, rows, _ROWS))
