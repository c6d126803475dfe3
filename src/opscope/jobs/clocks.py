"""Clock alignment for all ranks of a job: offset and error of each machine.

The offset is a line ``offset + drift * time``. Events give lower bounds of it at some moments, and
upper bounds at others. For each possible drift, the fit keeps the offsets that satisfy 99 % of
these conditions. The middle of the kept lines is the estimate, and their distance is the error
bound. No clock runs evenly for long, so each line covers two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.timeline.arrays import Amounts, Flags, Values

Conditions = tuple[Values, Values]
"""Moments of the clock, and by how much it is then ahead, at least or at most."""

_MOST_DRIFT = 500e-6
"""Largest drift of clocks with NTP: the kernel corrects by no more, and crystals are better."""
_DRIFTS, _EDGES = 65, 17
"""Drifts that are tried at once, and edges that are kept."""
_EXACT_NS = 1_000
_LONGEST_NS = 120 * 10**9
_WANDER = 1e-8 / 1e9
"""Change of drift per nanosecond: 0.6 ppm in a minute, as of a crystal that warms up."""
_LEFT_OUT = 0.01
"""Share of conditions that may be violated: wrongly matched collectives, clocks that were set."""
_MOST = 4_096  # most conditions of each kind for a line; fewer make the bound larger


@dataclass(frozen=True)
class ClockLine:
    """Offset between two clocks as a straight line over time, with its error bound."""

    origin_ns: int  # moment at which the offset is ``offset_ns``, on this clock
    offset_ns: float  # offset at ``origin_ns``
    drift: float  # change of the offset per nanosecond
    edges: Amounts  # extreme possible lines: offset from ``offset_ns``, drift. (edges, 2)

    def ahead_ns(self, time_ns: Values) -> Values:
        """Offset at times of the first clock; same shape."""
        return np.round(self.offset_ns + self.drift * (time_ns - self.origin_ns)).astype(np.int64)

    def bound_ns(self, time_ns: Values) -> Amounts:
        """Largest error of the offset at these times; same shape."""
        since = np.asarray(time_ns - self.origin_ns, dtype=np.float64)
        reach = np.zeros(since.shape)
        for offset, drift in self.edges.tolist():
            reach = np.maximum(reach, np.abs(offset + (drift - self.drift) * since))
        return reach + (_WANDER / 2 * since**2 if len(self.edges) else 0.0)

    @property
    def worst_ns(self) -> float:
        """The bound in the middle."""
        return float(self.bound_ns(np.array([self.origin_ns]))[0])


@dataclass(frozen=True)
class ClockCourse:
    """Offset between two clocks over a long time: one line for every two minutes with data."""

    lines: tuple[ClockLine, ...]

    def ahead_ns(self, time_ns: Values) -> Values:
        """Offset at times of the first clock; same shape."""
        found = np.zeros(np.shape(time_ns), dtype=np.int64)
        for line, is_there in self._by_line(time_ns):
            found = np.where(is_there, line.ahead_ns(time_ns), found)
        return found

    def bound_ns(self, time_ns: Values) -> Amounts:
        """Largest error of the offset at these times; same shape."""
        found = np.zeros(np.shape(time_ns))
        for line, is_there in self._by_line(time_ns):
            found = np.where(is_there, line.bound_ns(time_ns), found)
        return found

    @property
    def worst_ns(self) -> float:
        """The bound in the middle of the line whose bound is largest."""
        return max(line.worst_ns for line in self.lines)

    def agreeing(self) -> ClockCourse:
        """Offset 0 with its error bound, if the bound allows 0; else this course."""
        if any(abs(line.offset_ns) > line.worst_ns for line in self.lines):
            return self
        lines = (
            replace(one, offset_ns=0.0, drift=0.0, edges=one.edges + np.array([one.offset_ns, 0.0]))
            for one in self.lines
        )
        return ClockCourse(tuple(lines))

    def _by_line(self, time_ns: Values) -> list[tuple[ClockLine, Flags]]:
        """Each line, and which moments are nearest to it."""
        origins = np.array([line.origin_ns for line in self.lines])
        which = np.searchsorted(origins[:-1] + np.diff(origins) // 2, time_ns)
        return [(line, which == row) for row, line in enumerate(self.lines)]


EVEN = ClockCourse((ClockLine(0, 0.0, 0.0, np.zeros((0, 2))),))
"""Course of a clock relative to itself."""


def fit_course(least: Conditions, most: Conditions) -> ClockCourse | None:
    """Lines that satisfy the conditions; None without a line, or if one side has no conditions."""
    if not len(least[0]) or not len(most[0]):
        return None
    first_ns = min(least[0].min(), most[0].min())
    last_ns = max(least[0].max(), most[0].max())
    count = int(last_ns - first_ns) // _LONGEST_NS + 1
    length_ns = int(last_ns - first_ns) // count + 1
    stretches = [
        (_within(least, start_ns, length_ns), _within(most, start_ns, length_ns))
        for start_ns in (int(first_ns) + length_ns * np.arange(count)).tolist()
    ]
    bounded = [pair for pair in stretches if all(len(times) for times, _ in pair)]
    lines = [_fit_line(*pair) for pair in bounded or [(least, most)]]
    fitted = tuple(line for line in lines if line is not None)
    return ClockCourse(fitted) if fitted else None


def _within(conditions: Conditions, start_ns: int, length_ns: int) -> Conditions:
    rows = np.flatnonzero((conditions[0] >= start_ns) & (conditions[0] < start_ns + length_ns))
    kept = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST)).astype(np.int64)]
    return conditions[0][kept], conditions[1][kept]


def _fit_line(least: Conditions, most: Conditions) -> ClockLine | None:
    """Line that satisfies the conditions; None without one, for example if a clock was set."""
    moments = np.concatenate([least[0], most[0]])
    origin, span = int((int(moments.min()) + int(moments.max())) // 2), float(np.ptp(moments))
    base = int(np.median(least[1]))
    low_of, high_of = (
        ((times - origin).astype(np.float64), (values - base).astype(np.float64))
        for times, values in (least, most)
    )
    drifts = np.linspace(-_MOST_DRIFT, _MOST_DRIFT, _DRIFTS)
    while True:
        low, high = -_smallest(-1, low_of, drifts), _smallest(1, high_of, drifts)
        valid = np.flatnonzero(high >= low)
        step = drifts[1] - drifts[0]
        if 2 * len(valid) >= _DRIFTS or step * span < _EXACT_NS:
            break
        valid = valid if len(valid) else np.array([np.argmax(high - low)])
        ends = np.clip(
            [drifts[valid[0]] - step, drifts[valid[-1]] + step], -_MOST_DRIFT, _MOST_DRIFT
        )
        drifts = np.linspace(ends[0], ends[1], _DRIFTS)
    if not len(valid):
        return None
    chosen = valid[np.linspace(0, len(valid) - 1, min(len(valid), _EDGES)).astype(np.int64)]
    edges = np.array([[at[row], drifts[row]] for at in (low, high) for row in chosen.tolist()])
    offset, drift = (edges.max(axis=0) + edges.min(axis=0)) / 2
    return ClockLine(origin, float(offset) + base, float(drift), edges - (offset, 0.0))


def _smallest(sign: int, conditions: tuple[Amounts, Amounts], drifts: Amounts) -> Amounts:
    """Smallest ``sign`` times slack of the conditions at each drift. Shape (drifts,).

    The ``_LEFT_OUT`` most violated conditions do not count.
    """
    since, ahead = conditions
    place = int(_LEFT_OUT / 2 * len(since))
    slack = sign * (ahead - drifts[:, None] * since)
    found: Amounts = np.partition(slack, place, axis=1)[:, place]
    return found


_FARTHEST = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, eq=False)
class Clocks:
    """Clocks of a job's processes. The job's clock is that of the first process's machine.

    Attributes:
        machines: host name of each machine, or the process if the name is unknown.
        is_named: whether the names are known. If not, processes may share a machine: their clocks
            are treated as equal if the times permit.
        machine: row of each process in ``machines``. Shape (processes,).
        shift_ns: difference to add to the times of each process for its machine's clock.
        courses: difference of each machine's clock to the first one; None if unknown.
        through: machines between each machine and the first one; their bounds add up.
    """

    machines: tuple[str, ...]
    is_named: tuple[bool, ...]
    machine: Values
    shift_ns: Values
    courses: tuple[ClockCourse | None, ...]
    through: tuple[tuple[int, ...], ...]

    @property
    def unknown(self) -> list[str]:
        """Machines whose clock cannot be aligned with the first one's."""
        return [
            name for name, line in zip(self.machines, self.courses, strict=True) if line is None
        ]

    def on_one(self, process: int, time_ns: Values) -> Values:
        """Times of a process on the job's clock; unchanged if its machine's clock is unknown."""
        moved = np.asarray(time_ns + self.shift_ns[process], dtype=np.int64)
        course = self.courses[int(self.machine[process])]
        return moved if course is None else moved - course.ahead_ns(moved)

    def bound_ns(self, process: int, time_ns: Values) -> Amounts:
        """Maximum error of these times on the job's clock; infinite if unknown."""
        bound = np.zeros(np.shape(time_ns))
        row = int(self.machine[process])
        for one in (row, *self.through[row]):
            course = self.courses[one]
            if course is None:
                return np.full(np.shape(time_ns), np.inf)
            bound += course.bound_ns(time_ns + course.ahead_ns(time_ns))
        return bound

    def __str__(self) -> str:
        if not self.machines:
            return "No process was compared."
        if len(self.machines) == 1:
            return f"All processes ran on one machine ({self.machines[0]}) with one clock."
        known = [course for course in self.courses if course is not None]
        text = ""
        if len(known) > 1:
            worst = max(course.worst_ns for course in known)
            text = f"Clocks of {len(known)} machines are aligned to within "
            text += f"{time_text(round(worst))}."
        if self.unknown:
            text += (
                f" The clocks of {', '.join(self.unknown)} could not be aligned with that of "
                f"{self.machines[0]}: they share no suitable collective, or a clock was set "
                "during the job. Times of these machines are not compared."
            )
        return text.strip()


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Order that collectives enforce between ranks; one row per process and collective."""

    collective: Values  # the collective
    process: Values  # row in the processes
    start_ns: Values  # begin of the process's part, on its own clock
    end_ns: Values  # end of its part, with its result
    gives: Flags  # whether others need its data
    takes: Flags  # whether it needs data of others


def machines_of(about: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Clocks:
    """Processes by machine, from their metadata; the clocks of several machines are unknown.

    ``names`` stand for machines of traces without host name.
    """
    machines: dict[Any, int] = {}
    titles: list[tuple[str, bool]] = []
    machine, shift = [], []
    first_of: list[Mapping[str, Any]] = []
    for facts, name in zip(about, names, strict=True):
        host = str(facts.get("host_name") or "")
        key = str(facts.get("boot_id") or "") or host or (name,)
        if key not in machines:
            machines[key] = len(machines)
            titles.append((host or name, bool(host)))
            first_of.append(facts)
        machine.append(machines[key])
        shift.append(_shift_ns(first_of[machines[key]], facts))
    return Clocks(
        tuple(title for title, _ in titles),
        tuple(is_named for _, is_named in titles),
        np.array(machine, dtype=np.int64),
        np.array(shift, dtype=np.int64),
        (EVEN, *[None] * (len(titles) - 1))[: len(titles)],
        tuple(() for _ in titles),
    )


def _shift_ns(first: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Nanoseconds to add to times of ``other``, from the monotonic clock that a machine shares.

    Each trace has Unix times of its own end, and that clock may be set in between.
    """
    ahead = [_ahead_of_monotonic_ns(about) for about in (first, other)]
    return 0 if None in ahead else int(ahead[0] or 0) - int(ahead[1] or 0)


def _ahead_of_monotonic_ns(about: Mapping[str, Any]) -> int | None:
    end_ns, monotonic_ns = about.get("end_ns"), about.get("end_monotonic_ns")
    if not isinstance(end_ns, int) or not isinstance(monotonic_ns, int):
        return None
    return end_ns - monotonic_ns


def brought_together(clocks: Clocks, arrivals: Arrivals) -> Clocks:
    """Clocks with the courses of all machines, found from their collectives.

    Machines with a direct comparison to the first one come first.
    """
    count = len(clocks.machines)
    if count < 2:
        return clocks
    edges = _edges(clocks, arrivals)
    courses, through = list(clocks.courses), list(clocks.through)
    reached = [0]
    for reference in reached:
        reference_course = courses[reference]
        for row in range(count):
            if courses[row] is None and reference_course is not None:
                course = _course_of(edges, reference, row, reference_course)
                if course is not None:
                    courses[row] = course if clocks.is_named[row] else course.agreeing()
                    through[row] = () if reference == 0 else (reference, *through[reference])
                    reached.append(row)
    return replace(clocks, courses=tuple(courses), through=tuple(through))


def _edges(clocks: Clocks, arrivals: Arrivals) -> tuple[Values, Values]:
    """Begin of the last giver and end of the first taker. Shapes (machines, collectives).

    Times are on the machine's clock.
    """
    size = (len(clocks.machines), int(arrivals.collective.max(initial=-1)) + 1)
    last, first = np.full(size, -_FARTHEST), np.full(size, _FARTHEST)
    machine = clocks.machine[arrivals.process]
    shift = clocks.shift_ns[arrivals.process]
    gives, takes = arrivals.gives, arrivals.takes
    np.maximum.at(
        last,
        (machine[gives], arrivals.collective[gives]),
        (arrivals.start_ns + shift)[gives],
    )
    np.minimum.at(
        first,
        (machine[takes], arrivals.collective[takes]),
        (arrivals.end_ns + shift)[takes],
    )
    return last, first


def _course_of(
    edges: tuple[Values, Values], known: int, other: int, course: ClockCourse
) -> ClockCourse | None:
    """Course of machine ``other``, from collectives with a machine whose course is known."""
    last, first = edges
    least = np.flatnonzero((last[other] != -_FARTHEST) & (first[known] != _FARTHEST))
    most = np.flatnonzero((first[other] != _FARTHEST) & (last[known] != -_FARTHEST))
    began, ended = last[other, least], first[other, most]
    known_end, known_start = first[known, least], last[known, most]
    known_end = known_end - course.ahead_ns(known_end)
    known_start = known_start - course.ahead_ns(known_start)
    return fit_course((began, began - known_end), (ended, ended - known_start))
