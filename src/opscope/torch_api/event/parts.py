"""The small types an event in torch's shape is made of."""

from __future__ import annotations

from typing import NamedTuple


class Interval:
    """From ``start`` to ``end``, microseconds after the recording began."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Length in microseconds."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Device work that an operator launched; ``duration`` in microseconds."""

    name: str
    device: int
    duration: float
