"""Clock alignment for all ranks of a job: offset and error of each machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.jobs.clock_fit import EVEN, ClockCourse, fit_course
from opscope.timeline.arrays import Amounts, Flags, Values

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
