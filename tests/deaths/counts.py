"""What a program has done, in memory that outlives it."""

import mmap

import numpy as np

THREADS = 4
UNITS_BEGUN, UNITS_ENDED, OPERATORS, ALLOCATIONS, KINDS = range(5)


class Counts:
    """One row per thread: each is written by that alone, after what it counts."""

    def __init__(self):
        self._memory = mmap.mmap(-1, THREADS * KINDS * 8)  # shared with children
        self.rows = np.frombuffer(self._memory, np.int64).reshape(THREADS, KINDS)

    def clear(self):
        """Before the next program."""
        self.rows[:] = 0
