"""What was collected when: every change of it, with the number of the step at which it came."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_MOST = 20_000
"""Changes that are remembered; a ring seldom holds so many."""


@dataclass(frozen=True)
class CollectedPeriod:
    """A time in which the same was collected.

    Attributes:
        from_ns: Unix time.
        to_ns: likewise.
        level: what was collected.
        steps: of the program that ended in it.
    """

    from_ns: int
    to_ns: int
    level: str
    steps: int


class Collected:
    """Told of every change, by whichever thread makes it.

    Attributes:
        count: of changes so far.
    """

    def __init__(self, level: str) -> None:
        self._changes: deque[tuple[int, str, int]] = deque([(time.time_ns(), level, 0)], _MOST)
        self.count = 0

    def change(self, level: str, step: int) -> None:
        """From now on ``level`` is collected; so many steps have ended."""
        self._changes.append((time.time_ns(), level, step))
        self.count += 1

    def since(self, from_ns: int, step: int) -> list[list[int | str]]:
        """For JSON: what was collected at that time, every change since, and the current step."""
        changes = list(self._changes)
        first = max((i for i, c in enumerate(changes) if c[0] <= from_ns), default=0)
        kept: list[tuple[int, str, int]] = [*changes[first:], (time.time_ns(), "", step)]
        return [[*change] for change in kept]


def periods_of(
    changes: Sequence[Sequence[int | str]], from_ns: int, to_ns: int
) -> list[CollectedPeriod]:
    """What :meth:`Collected.since` said, of the time between two moments."""
    found = []
    for one, other in itertools.pairwise(changes):
        begin, end = max(int(one[0]), from_ns), min(int(other[0]), to_ns)
        if other is changes[-1]:
            end = to_ns  # what was collected last, until the recording's end
        if begin < end:
            found.append(CollectedPeriod(begin, end, str(one[1]), int(other[2]) - int(one[2])))
    return found
