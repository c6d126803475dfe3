"""Functions whose large arrays take the memory of those that were dropped before.

The C library gives what a dropped array of many MiB held back to the kernel, which clears every
page of the next one: for columns of millions of rows that takes as long as computing them. All that
is free goes back when the function returns, so that the program around it has what it had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
