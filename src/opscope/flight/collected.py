"""What was collected when: every change of it, with the number of the step at which it came.

It is told as text, a line each with the time, the level and the step. Steps may be sampled a
hundred times a second, and the same is told again and again: as lists in a list it took the
program's GIL for 15 ms where there were five thousand of them, and so many new containers set off
Python's garbage collection, which goes through all that the program has.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import time
from collections import deque
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
        first_ns = time.time_ns()
        self._changes = deque([(first_ns, _line(first_ns, level, 0))], _MOST)
        self.count = 0

    def change(self, level: str, step: int) -> None:
        """From now on ``level`` is collected; so many steps have ended."""
        now_ns = time.time_ns()
        self._changes.append((now_ns, _line(now_ns, level, step)))
        self.count += 1

    def since(self, from_ns: int, step: int) -> str:
        """What was collected at that time, every change since, and the current step."""
        changes = list(self._changes)
        first = max(bisect.bisect_right(changes, from_ns, key=operator.itemgetter(0)) - 1, 0)
        lines = [line for _, line in changes[first:]]
        return "".join((*lines, _line(time.time_ns(), "", step)))


def _line(time_ns: int, level: str, step: int) -> str:
    return f"{time_ns} {level} {step}\n"


def periods_of(changes: str, from_ns: int, to_ns: int) -> list[CollectedPeriod]:
    """What :meth:`Collected.since` said, of the time between two moments."""
    rows = [line.split(" ") for line in changes.splitlines()]
    found = []
    for one, other in itertools.pairwise(rows):
        begin, end = max(int(one[0]), from_ns), min(int(other[0]), to_ns)
        if other is rows[-1]:
            end = to_ns  # what was collected last, until the recording's end
        if begin < end:
            found.append(CollectedPeriod(begin, end, one[1], int(other[2]) - int(one[2])))
    return found
