"""Step time of one process by place: cause, phase, line, module and operator, so that two processes
can be laid beside each other without their traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.analysis.account.divided import time_of_groups
from opscope.analysis.function_lines import gap_lines
from opscope.analysis.sites import Sites
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.columns.location import Location
from opscope.columns.row_groups import group_rows
from opscope.columns.table import Table
from opscope.timeline.arrays import Rows
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.phases import PHASE_NAMES, Phase, find_phases
from opscope.timeline.tree.event_tree import event_tree, outermost_ancestor

Columns = dict[str, Any]

_CAUSES = {cause.name.lower(): cause for cause in Cause}
_PLACE = ("file", "line", "function", "phase", "module", "operator")


@dataclass(frozen=True, order=True)
class ProgramPlace(Location):
    """A place that two processes of a program have in common."""

    phase: str = ""  # part of a step, as in :data:`PHASE_NAMES`; empty for what is between them
    module: str = ""  # path and class; empty for none
    operator: str = ""  # the outermost one; empty for none


@dataclass(frozen=True, eq=False)
class ProcessPlaces:
    """The time of a process by place."""

    steps: int  # how many it has
    # of a cause, of each place that it passed at, in the steps of the thread that the program runs
    # on
    time_ns: Mapping[Cause, Mapping[ProgramPlace, int]]
    # of places where a function computes itself the line that most of that is at
    own_line: Mapping[ProgramPlace, int]


def place_columns(sites: Sites, scale: float = 1.0) -> Columns:
    """The columns of ``rollup_places``, without whose they are.

    ``scale``: how many times as many steps the recording has as that of ``sites``.
    """
    group, places = _places_of_events(sites)
    numbers = {place: number for number, place in enumerate(sorted({*places, ProgramPlace()}))}
    # Two files, or two functions of one name and line, are one place in words.
    of_group = np.array([numbers[place] for place in (*places, ProgramPlace())], dtype=np.int32)
    time = np.zeros((len(numbers), len(Cause)), dtype=np.int64)
    np.add.at(time, of_group, time_of_groups(sites.listing.trace, group, len(places)))
    row, cause = np.nonzero(time)
    named = list(numbers)
    lines = _own_lines(sites, of_group[group], named)
    found = [named[number] for number in row.tolist()]
    return {
        "cause": [Cause(one).name.lower() for one in cause.tolist()],
        "phase": [one.phase for one in found],
        "file": [one.file for one in found],
        "line": np.array([one.line for one in found], dtype=np.int64),
        "function": [one.function for one in found],
        "module": [one.module for one in found],
        "operator": [one.operator for one in found],
        "own_line": np.array([lines.get(number, -1) for number in row.tolist()], dtype=np.int64),
        "time_ns": (time[row, cause] * scale).astype(np.int64),
    }


def places_of_table(table: Table, steps: int) -> ProcessPlaces:
    """The stored statistics of a process, with its number of steps."""
    places = [ProgramPlace(*row) for row in zip(*(table[n].tolist() for n in _PLACE), strict=True)]
    time_ns: dict[Cause, dict[ProgramPlace, int]] = {}
    own_line: dict[ProgramPlace, int] = {}
    more = (table[name].tolist() for name in ("cause", "own_line", "time_ns"))
    for place, cause, line, time in zip(places, *more, strict=True):
        if cause in _CAUSES:
            time_ns.setdefault(_CAUSES[cause], {})[place] = time
        if line >= 0:
            own_line[place] = line
    return ProcessPlaces(steps, time_ns, own_line)


def _places_of_events(
    sites: Sites,
) -> tuple[Rows, list[ProgramPlace]]:
    """Number of the place of every event, and the places by number.

    Python code of a module without a phase of its own belongs to the forward pass, too. Own time of
    the program's functions is at the function, also where a backward pass calls it.
    """
    trace = sites.listing.trace
    names, modules = trace.names, attribute_to_modules(trace)
    phase, path = find_phases(trace).phase, modules.path
    is_own = sites.defined_here & (sites.frame >= 0)
    frame, line = (
        np.where(is_own, own, at)
        for own, at in zip(
            (sites.frame, np.append(sites.first_line, -1)[sites.frame]), sites.at, strict=True
        )
    )
    outermost = outermost_ancestor(
        event_tree(trace).parent, trace.events["kind"] == EventKind.OPERATOR
    )
    found = group_rows(
        np.where((phase < 0) & (path >= 0), Phase.FORWARD, phase),
        frame,
        line,
        path,
        np.append(trace.events["name"], -1)[outermost],
    )
    places = [
        ProgramPlace.at(
            trace,
            of,
            at,
            phase=PHASE_NAMES[phase] if phase >= 0 else "",
            module=modules.text(path) if path >= 0 else "",
            operator=names[name] if name >= 0 else "",
        )
        for phase, of, at, path, name in found.rows()
    ]
    return found.group.astype(np.int32), places


def _own_lines(sites: Sites, place: Rows, places: list[ProgramPlace]) -> dict[int, int]:
    """The line with most own time of each function, by the number of its place."""
    where = [(one.file, one.line) for one in places]
    tree = sites.listing.tree
    times_ns = (tree.start_ns, tree.duration_ns)
    return gap_lines(sites, times_ns, sites.defined_here, place, where)


_BETWEEN = "between them"


@dataclass(frozen=True)
class Excess:
    """The part of a step in which a rank differs most, and the place there.

    Attributes:
        phase: ``forward``, ``backward``, ``optimizer``, ``data loading``, ``garbage collection``;
            empty for the time between them.
        phase_ns: additional time per step in this phase.
        place: ``file:line`` of the program; empty if it was not recorded.
        function: function of the program at this place.
        module: path of the module; empty for none.
        operator: the outermost operator at this place; empty for none.
        place_ns: additional time per step at this place.
    """

    phase: str
    phase_ns: float
    place: str
    function: str
    module: str
    operator: str
    place_ns: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "phase": self.phase or _BETWEEN,
            "phase_ns": round(self.phase_ns),
            "place": self.place,
            "function": self.function,
            "module": self.module,
            "operator": self.operator,
            "place_ns": round(self.place_ns),
        }

    def __str__(self) -> str:
        words = [f"in {self.phase}" if self.phase else ""]
        if self.place:
            words.append(f"at {self.place}" + (f" ({self.function})" if self.function else ""))
        words.append(f"in module {self.module}" if self.module else "")
        words.append(f"in {self.operator}" if self.operator else "")
        return ", ".join(word for word in words if word)


def find_excess(slow: ProcessPlaces, other: ProcessPlaces, cause: Cause) -> Excess | None:
    """Find the place where the slow process spends most additional time of a cause; None if it
    spends no more.

    Of waiting for a CPU, which strikes anywhere, only the phase.
    """
    more = _of_a_step(slow, cause)
    for place, time in _of_a_step(other, cause).items():
        more[place] = more.get(place, 0.0) - time
    by_phase: dict[str, float] = {}
    for place, time in more.items():
        by_phase[place.phase] = by_phase.get(place.phase, 0.0) + time
    if not by_phase or max(by_phase.values()) <= 0:
        return None
    phase = max(by_phase, key=lambda one: by_phase[one])
    if cause is Cause.DESCHEDULED:
        return Excess(phase, by_phase[phase], "", "", "", "", 0.0)
    places = {place: time for place, time in more.items() if place.phase == phase}
    best = max(places, key=lambda place: places[place])
    at = replace(best, line=slow.own_line.get(best, best.line))
    return Excess(
        phase=phase,
        phase_ns=by_phase[phase],
        place=str(at),
        function=best.function,
        module=best.module,
        operator=best.operator,
        place_ns=places[best],
    )


def _of_a_step(places: ProcessPlaces, cause: Cause) -> dict[ProgramPlace, float]:
    found = places.time_ns.get(cause, {})
    return {place: time_ns / max(places.steps, 1) for place, time_ns in found.items()}
