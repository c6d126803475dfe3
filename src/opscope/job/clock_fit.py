"""How far one clock is ahead of another, from what cannot have happened before something else.

Of a line ``offset + drift * time`` it is known at some moments that it is not below a value, at
others that it is not above one. All lines that keep to all of these are a convex polygon in the
plane of offset and drift: what is true lies in it, whatever the network did, as long as the clocks
run evenly. Its middle is the estimate, and how far it reaches at a moment is the bound there. As
no clock runs evenly for long, a line is of two minutes at most, and wandering is allowed for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.int64]
Points = npt.NDArray[np.float64]

_MOST_DRIFT = 500e-6
"""Of clocks that are kept by NTP: the kernel corrects by no more, and crystals are better."""
_LONGEST_NS = 120 * 10**9
"""That a line is of, where there are enough conditions."""
_WANDER = 1e-8 / 1e9
"""By how much drift changes in a nanosecond: 0.6 in a million in a minute, as of a crystal that
becomes warm."""
_FEWEST = 4
"""Conditions on either side, to have a line of their own."""
_STRETCHES = 256
"""Of time, in each of which the strictest conditions count; leaving out others makes the bound
larger, never wrong."""


@dataclass(frozen=True)
class ClockLine:
    """How far a clock is ahead of another, and how far off that may be.

    Attributes:
        origin_ns: the moment that drift is counted from, on the other clock.
        offset_ns: how far it is ahead then.
        drift: nanoseconds that it gains in each.
        corners: offset from ``offset_ns`` and drift of the lines at the edge of what is possible.
            Shape (corners, 2).
    """

    origin_ns: int
    offset_ns: float
    drift: float
    corners: Points

    def ahead_ns(self, time_ns: Values) -> Values:
        """How far it is ahead at moments of the other clock; same shape."""
        return np.round(self.offset_ns + self.drift * (time_ns - self.origin_ns)).astype(np.int64)

    def bound_ns(self, time_ns: Values) -> npt.NDArray[np.float64]:
        """How far off that may be at most; same shape."""
        since = np.asarray(time_ns - self.origin_ns, dtype=np.float64)
        if not len(self.corners):  # it is the other clock
            return np.zeros(since.shape)
        bound = _WANDER / 2 * since**2
        reach = np.zeros(since.shape)
        for offset, drift in self.corners.tolist():
            reach = np.maximum(reach, np.abs(offset + (drift - self.drift) * since))
        return bound + reach


@dataclass(frozen=True)
class ClockCourse:
    """How far a clock is ahead over a long time, in which it does not run evenly.

    Attributes:
        lines: one after the other; None for a time in which it was set.
        until_ns: when each but the last ends, on the other clock.
    """

    lines: tuple[ClockLine | None, ...]
    until_ns: tuple[int, ...] = ()

    def ahead_ns(self, time_ns: Values) -> Values:
        """How far it is ahead at moments of the other clock; same shape. What is not known is
        what it was before or after."""
        known = [line for line in self.lines if line is not None]
        usual = known[0]
        found = np.zeros(np.shape(time_ns), dtype=np.int64)
        for number, line in enumerate(self.lines):
            usual = usual if line is None else line
            there = self._which(time_ns) == number
            found = np.where(there, usual.ahead_ns(time_ns), found)
        return found

    def bound_ns(self, time_ns: Values) -> npt.NDArray[np.float64]:
        """How far off that may be at most; infinite where it is not known; same shape."""
        found = np.full(np.shape(time_ns), np.inf)
        for number, line in enumerate(self.lines):
            if line is not None:
                there = self._which(time_ns) == number
                found = np.where(there, line.bound_ns(time_ns), found)
        return found

    def agreeing(self) -> ClockCourse:
        """That the clocks agree, with its bound; this one where they do not."""
        line = self.lines[0]
        if len(self.lines) > 1 or line is None:
            return self
        corners = line.corners + np.array([line.offset_ns, 0.0])
        following = np.roll(corners, -1, axis=0)
        crosses = corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0]
        if (crosses < 0).any() and (crosses > 0).any():
            return self
        return ClockCourse((replace(line, offset_ns=0.0, drift=0.0, corners=corners),))

    @property
    def worst_ns(self) -> float:
        """The bound in the middle of each line, where it is largest; infinite if one is unknown."""
        worst = 0.0
        for line in self.lines:
            bound = np.inf if line is None else line.bound_ns(np.array([line.origin_ns]))[0]
            worst = max(worst, float(bound))
        return worst

    def _which(self, time_ns: Values) -> Values:
        return np.searchsorted(np.array(self.until_ns, dtype=np.int64), time_ns, side="right")


EVEN = ClockCourse((ClockLine(0, 0.0, 0.0, np.zeros((0, 2))),))
"""Of a clock that is the other one."""


def fit_course(above: tuple[Values, Values], below: tuple[Values, Values]) -> ClockCourse | None:
    """As :func:`fit_line`, by as many lines as it takes.

    Returns:
        None where nothing is known at any time.
    """
    lines, until = _fitted(above, below)
    return ClockCourse(tuple(lines), tuple(until)) if any(lines) else None


def _fitted(
    above: tuple[Values, Values], below: tuple[Values, Values]
) -> tuple[list[ClockLine | None], list[int]]:
    are_few = min(len(above[0]), len(below[0])) < 2 * _FEWEST
    if are_few or max(np.ptp(above[0]), np.ptp(below[0])) < _LONGEST_NS:
        line = fit_line(above, below)
        if are_few or line is not None:
            return [line], []
    middle = int(np.median(above[0]))
    halves = [
        tuple((times[early], values[early]) for times, values, early in each)
        for each in (
            [(*pair, pair[0] < middle) for pair in (above, below)],
            [(*pair, pair[0] >= middle) for pair in (above, below)],
        )
    ]
    if any(not len(times) for half in halves for times, _ in half):
        return [fit_line(above, below)], []
    (first, until), (last, later) = (_fitted(*half) for half in halves)
    return [*first, *last], [*until, middle, *later]


def fit_line(above: tuple[Values, Values], below: tuple[Values, Values]) -> ClockLine | None:
    """The middle of all lines that keep to the conditions.

    Args:
        above: moments, and what the clock is ahead by at least then. Each of shape (conditions,).
        below: moments, and what it is ahead by at most then.

    Returns:
        None where no line keeps to all, or where nothing bounds it on one side.
    """
    if not len(above[0]) or not len(below[0]):
        return None
    moments = np.concatenate([above[0], below[0]])
    origin = int((int(moments.min()) + int(moments.max())) // 2)
    base = int(np.median(above[1]))
    span = int(moments.max()) - int(moments.min())
    farthest = max(int(np.abs(values - base).max()) for _, values in (above, below))
    reach = 2.0 * (farthest + _MOST_DRIFT * span) + 1.0
    signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    polygon = signs * np.array([reach, _MOST_DRIFT])
    for sign, (times, values) in ((1.0, above), (-1.0, below)):
        since = np.asarray(times - origin, dtype=np.float64)
        ahead = np.asarray(values - base, dtype=np.float64)
        for row in _strictest(since, sign * ahead):
            polygon = _cut(polygon, sign, since[row], ahead[row])
            if not len(polygon):
                return None
    offset, drift = (polygon.max(axis=0) + polygon.min(axis=0)) / 2
    corners = polygon - np.array([offset, 0.0])
    return ClockLine(origin, offset + base, float(drift), corners)


def _strictest(since: Points, least: Points) -> list[int]:
    """In each stretch of time the condition that says most. Rows."""
    span = max(float(np.ptp(since)), 1.0)
    stretch = ((since - since.min()) / span * (_STRETCHES - 1)).astype(np.int64)
    order = np.lexsort((-least, stretch))
    first = np.append(True, np.diff(stretch[order]) > 0)
    rows: list[int] = order[first].tolist()
    return rows


def _cut(polygon: Points, sign: float, since: float, ahead: float) -> Points:
    """What of a convex polygon keeps to ``sign * (offset + drift * since - ahead) >= 0``."""
    inside = sign * (polygon[:, 0] + polygon[:, 1] * since - ahead)
    if (inside >= 0).all():
        return polygon
    kept: list[Points] = []
    for row, value in enumerate(inside.tolist()):
        before = float(inside[row - 1])
        if (value >= 0) != (before >= 0):
            share = before / (before - value)
            kept.append(polygon[row - 1] + share * (polygon[row] - polygon[row - 1]))
        if value >= 0:
            kept.append(polygon[row])
    return np.array(kept).reshape(-1, 2)
