"""Step time of one process by cause and place, to compare two processes without their traces.

A place is a phase, line, module and operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscope.analysis.account.find import time_of_groups
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

    phase: str = ""  # phase of a step, as in :data:`PHASE_NAMES`; empty between phases
    module: str = ""  # path and class; empty for none
    operator: str = ""  # outermost operator; empty for none


@dataclass(frozen=True, eq=False)
class ProcessPlaces:
    """The time of a process by place."""

    steps: int  # number of its steps
    time_ns: Mapping[Cause, Mapping[ProgramPlace, int]]  # main thread's time in steps
    own_line: Mapping[ProgramPlace, int]  # line with most self time of a function


def place_columns(sites: Sites, scale: float = 1.0) -> Columns:
    """Columns of ``rollup_places``, without the process.

    ``scale``: number of steps of the recording, relative to that of ``sites``.
    """
    group, places = _places_of_events(sites)
    numbers = {place: number for number, place in enumerate(sorted({*places, ProgramPlace()}))}
    # Two files, or two functions with one name and line, have the same place.
    of_group = np.array([numbers[place] for place in (*places, ProgramPlace())], dtype=np.int32)
    time = np.zeros((len(numbers), len(Cause)), dtype=np.int64)
    np.add.at(time, of_group, time_of_groups(sites.listing.trace, group, len(places)))
    row, cause = np.nonzero(time)
    named = list(numbers)
    lines = _own_lines(sites, of_group[group], named)
    places_of_row = [named[number] for number in row.tolist()]
    return {
        "cause": [Cause(one).name.lower() for one in cause.tolist()],
        "phase": [one.phase for one in places_of_row],
        "file": [one.file for one in places_of_row],
        "line": np.array([one.line for one in places_of_row], dtype=np.int64),
        "function": [one.function for one in places_of_row],
        "module": [one.module for one in places_of_row],
        "operator": [one.operator for one in places_of_row],
        "own_line": np.array([lines.get(number, -1) for number in row.tolist()], dtype=np.int64),
        "time_ns": (time[row, cause] * scale).astype(np.int64),
    }


def places_of_table(table: Table, steps: int) -> ProcessPlaces:
    """Stored times of a process by place; ``steps``: its number of steps."""
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

    Python code of a module without its own phase belongs to the forward pass. Self time of the
    program's functions is at the function, even if a backward pass calls it.
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
    groups = group_rows(
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
        for phase, of, at, path, name in groups.rows()
    ]
    return groups.group.astype(np.int32), places


def _own_lines(sites: Sites, place: Rows, places: list[ProgramPlace]) -> dict[int, int]:
    """Line with most self time of each function, by the number of its place."""
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
    """The place with most additional time of a cause in the slow process; None without any.

    For waits for a CPU, which can happen anywhere, only the phase.
    """
    excess_ns = _of_a_step(slow, cause)
    for place, time in _of_a_step(other, cause).items():
        excess_ns[place] = excess_ns.get(place, 0.0) - time
    by_phase: dict[str, float] = {}
    for place, time in excess_ns.items():
        by_phase[place.phase] = by_phase.get(place.phase, 0.0) + time
    if not by_phase or max(by_phase.values()) <= 0:
        return None
    phase = max(by_phase, key=lambda one: by_phase[one])
    if cause is Cause.DESCHEDULED:
        return Excess(phase, by_phase[phase], "", "", "", "", 0.0)
    places = {place: time for place, time in excess_ns.items() if place.phase == phase}
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
