"""Where in the program the steps of one process spend their time: by cause, part of a step, line,
module and operator, so that two processes can be laid beside each other without their traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.find import time_of_groups
from opscope.columns.causes import Cause
from opscope.columns.location import Location
from opscope.columns.table import Table
from opscope.findings.gaps import gap_lines
from opscope.findings.subject import Subject
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.phases import PHASE_NAMES, Phase, find_phases
from opscope.timeline.tree.native_events import event_arrays, numbers_of_threads

Values = npt.NDArray[np.int64]
Columns = dict[str, Any]

_CAUSES = {cause.name.lower(): cause for cause in Cause}
_PLACE = ("file", "line", "function", "phase", "module", "operator")


@dataclass(frozen=True, order=True)
class ProgramPlace(Location):
    """A place that two processes of a program have in common.

    Attributes:
        phase: part of a step, as in :data:`PHASE_NAMES`; empty for what is between them.
        module: path and class; empty for none.
        operator: the outermost one; empty for none.
    """

    phase: str = ""
    module: str = ""
    operator: str = ""


@dataclass(frozen=True, eq=False)
class ProcessPlaces:
    """The time of a process by place.

    Attributes:
        steps: how many it has.
        time_ns: of a cause, of each place that it passed at, in the steps of the thread that the
            program runs on.
        own_line: of places where a function computes itself the line that most of that is at.
    """

    steps: int
    time_ns: Mapping[Cause, Mapping[ProgramPlace, int]]
    own_line: Mapping[ProgramPlace, int]


def place_columns(subject: Subject) -> Columns:
    """The columns of ``rollup_places``, without whose they are."""
    group, places = _places_of_events(subject)
    numbers = {place: number for number, place in enumerate(sorted({*places, ProgramPlace()}))}
    # Two files, or two functions of one name and line, are one place in words.
    of_group = np.array([numbers[place] for place in (*places, ProgramPlace())], dtype=np.int32)
    time = np.zeros((len(numbers), len(Cause)), dtype=np.int64)
    np.add.at(time, of_group, time_of_groups(subject.recorded, group, len(places)))
    row, cause = np.nonzero(time)
    named = list(numbers)
    lines = _own_lines(subject, of_group[group], named)
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
        "time_ns": time[row, cause],
    }


def places_of_table(table: Table, steps: int) -> ProcessPlaces:
    """What was written of a process with so many steps."""
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
    subject: Subject,
) -> tuple[npt.NDArray[np.int32], list[ProgramPlace]]:
    """Of every event a number, and the place that each number is."""
    trace, sites = subject.recorded, subject.sites
    frame, line = sites.at
    names, modules = trace.names, attribute_to_modules(trace)
    group, *columns = _native.place_groups(
        event_arrays(trace),
        sites.calls,
        len(numbers_of_threads(trace)),
        find_phases(trace).phase,
        modules.path,
        frame,
        line,
        sites.first_line,
        int(Phase.FORWARD),
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
        for phase, of, at, path, name in zip(*(one.tolist() for one in columns), strict=True)
    ]
    return group, places


def _own_lines(
    subject: Subject, place: npt.NDArray[np.int32], places: list[ProgramPlace]
) -> dict[int, int]:
    """Of places at which a function computes itself the line that most of that is at, by number."""
    where = [(one.file, one.line) for one in places]
    return gap_lines(subject, subject.sites.defined_here, place, where)
