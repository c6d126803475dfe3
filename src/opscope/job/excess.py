"""Where in the program one rank spends more of a step than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import MainTime
from opscope.analysis.account.causes import Cause
from opscope.analysis.account.find import main_time
from opscope.analysis.findings.gaps import widest_gaps
from opscope.analysis.findings.sites import Sites
from opscope.analysis.findings.subject import Subject
from opscope.analysis.module_attribution import attribute_to_modules
from opscope.analysis.phases import NO_PHASE, PHASE_NAMES, Phase, find_phases
from opscope.analysis.torch_listing.listing import TorchListing
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace
from opscope.tree.ancestry import outermost_ancestor

Values = npt.NDArray[np.int64]
Key = tuple[str, str, str, str, str]

_BETWEEN = "between them"


@dataclass(frozen=True)
class Excess:
    """The part of a step in which a rank differs most, and the place there.

    Attributes:
        phase: ``forward``, ``backward``, ``optimizer``, ``data loading``, ``garbage collection``;
            empty for what is between them.
        phase_ns: how much longer it takes there, a step.
        place: ``file:line`` of the program; empty where that was not recorded.
        function: of the program, at that place.
        module: path of the module; empty for none.
        operator: the outermost one that it is in; empty for none.
        place_ns: how much longer it takes at that place, a step.
    """

    phase: str
    phase_ns: float
    place: str
    function: str
    module: str
    operator: str
    place_ns: float

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
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


def find_excess(slow: Trace, other: Trace, cause: Cause) -> Excess | None:
    """Where the slow rank spends more time of a cause than the other.

    Of waiting for a processor, which strikes anywhere, the phase alone is told.

    Returns:
        None where neither spends more.
    """
    spent = main_time(slow, causes=(cause,))
    found = _found(spent)
    more = found.sums()
    for key, time in _found(main_time(other, causes=(cause,))).sums().items():
        more[key] = more.get(key, 0.0) - time
    by_phase: dict[str, float] = {}
    for key, time in more.items():
        by_phase[key[0]] = by_phase.get(key[0], 0.0) + time
    if not by_phase or max(by_phase.values()) <= 0:
        return None
    phase = max(by_phase, key=lambda one: by_phase[one])
    if cause is Cause.DESCHEDULED:
        return Excess(phase, by_phase[phase], "", "", "", "", 0.0)
    places = {key: time for key, time in more.items() if key[0] == phase}
    best = max(places, key=lambda key: places[key])
    _, place, function, module, operator = best
    place = _line_within(spent.trace, found.events(best)) or place
    return Excess(phase, by_phase[phase], place, function, module, operator, places[best])


@dataclass(frozen=True, eq=False)
class _Found:
    """Of one rank the time of a cause, piece by piece.

    Attributes:
        keys: the phases and places that there are.
        key: which one each piece has, position in ``keys``. Shape (pieces,).
        event: that it is the own time of, -1 for none. Shape (pieces,).
        per_step_ns: how long it is, shared out among the steps. Shape (pieces,).
    """

    keys: list[Key]
    key: Values
    event: Values
    per_step_ns: npt.NDArray[np.float64]

    def sums(self) -> dict[Key, float]:
        """The time of a step, by phase and place."""
        total = np.bincount(self.key, weights=self.per_step_ns, minlength=len(self.keys))
        return dict(zip(self.keys, total.tolist(), strict=True))

    def events(self, key: Key) -> Values:
        """Those whose own time it is, each once; none where the rank spends nothing there."""
        if key not in self.keys:
            return np.zeros(0, dtype=np.int64)
        return np.unique(self.event[self.key == self.keys.index(key)])


def _found(time: MainTime) -> _Found:
    rows = np.flatnonzero(time.step >= 0)
    event = time.event[rows].astype(np.int64)
    # Each event once, and not each piece; the last place is for none.
    is_there = np.zeros(len(time.trace.events) + 1, dtype=np.bool_)
    is_there[event] = True
    each = np.flatnonzero(is_there)
    columns = _where(time.trace, np.where(each == len(time.trace.events), -1, each))
    groups = group_rows(*columns.values())
    # Two files, or two functions of one name and line, are one place in words.
    of_text: dict[Key, int] = {}
    texts = (dict(zip(columns, values, strict=True)) for values in groups.rows())
    place = [of_text.setdefault(_texts(time.trace, one), len(of_text)) for one in texts]
    key = np.zeros(len(is_there), dtype=np.int64)
    key[each] = np.array([*place, 0], dtype=np.int64)[groups.group]
    return _Found(list(of_text), key[event], event, time.time_ns[rows] / max(len(time.steps), 1))


def _line_within(trace: Trace, events: Values) -> str:
    """The line at which a function of the program spends most of its own time, as a place; empty
    where ``events`` are not calls of one."""
    subject = Subject(trace)
    events = events[events >= 0]
    calls = events[subject.sites.defined_here[events]]
    if not len(calls):
        return ""
    frame = int(np.bincount(subject.sites.frame[calls]).argmax())
    line = widest_gaps(subject, frame, calls[subject.sites.frame[calls] == frame]).line
    return f"{trace.names[trace.table('frames')['file'][frame]]}:{line}"


def _where(trace: Trace, event: Values) -> Mapping[str, Values]:
    """Phase, line, module and outermost operator of each, as numbers; shapes as ``event``.

    No event is -1: the last row of columns, which is appended for it.
    """
    listing = TorchListing(trace)
    sites, frames = Sites(listing), trace.table("frames")
    frame, line = sites.at
    if len(frames):
        # What a function of the program does itself is there, also where a backward pass calls it.
        frame = np.where(sites.defined_here, sites.frame, frame)
        line = np.where(sites.defined_here, frames["line"][sites.frame], line)
    path = np.append(attribute_to_modules(trace).path, -1)[event]
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    outermost = outermost_ancestor(listing.tree.parent, is_operator).astype(np.int64)
    name = np.append(trace.events["name"], -1)[np.append(outermost, -1)[event]]
    return {
        "phase": np.append(_phases(trace), NO_PHASE)[event].astype(np.int64),
        "frame": np.append(frame, -1)[event].astype(np.int64),
        "line": np.append(line, -1)[event].astype(np.int64),
        "path": path.astype(np.int64),
        "name": name.astype(np.int64),
    }


def _phases(trace: Trace) -> Values:
    """Of every event; what Python does in a module belongs to the forward pass, too."""
    phase = find_phases(trace).phase.astype(np.int64)
    in_module = attribute_to_modules(trace).path >= 0
    return np.where((phase == NO_PHASE) & in_module, int(Phase.FORWARD), phase)


def _texts(trace: Trace, found: Mapping[str, int]) -> Key:
    frames, names = trace.table("frames"), trace.names
    place = function = ""
    if found["frame"] >= 0:
        place = f"{names[frames['file'][found['frame']]]}:{found['line']}"
        function = names[frames["function"][found["frame"]]]
    return (
        PHASE_NAMES[found["phase"]] if found["phase"] >= 0 else "",
        place,
        function,
        attribute_to_modules(trace).text(found["path"]) if found["path"] >= 0 else "",
        names[found["name"]] if found["name"] >= 0 else "",
    )
