"""Work on a long column some rows at a time, so that what is made on the way stays in the cache.

An array as long as a large trace is fresh memory, and the system takes longer to clear that than it
takes to compute what is in it. The arrays of a block are the heap's, again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

_ROWS = 1 << 17
"""A megabyte of 64-bit numbers: less than malloc asks the system for anew each time."""


def row_blocks(rows: int) -> Iterator[slice]:
    """Slices that cover ``rows`` rows, in order."""
    return (slice(first, min(first + _ROWS, rows)) for first in range(0, rows, _ROWS))
