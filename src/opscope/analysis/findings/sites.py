"""Where in the program an event was asked for: the source line, or else the module."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.module_attribution import attribute_to_modules
from opscope.analysis.program_files import is_library
from opscope.analysis.stacks import Stacks
from opscope.analysis.torch_listing.listing import TorchListing
from opscope.tree.ancestry import nearest_ancestor

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_PLACES = 5
RECORD_STACKS = "Record Python calls (with_stack=True, or --stack) to see the lines of the program."


@dataclass(frozen=True)
class Place:
    """One place that occurrences come from.

    Attributes:
        file: as Python names it; empty where only the module is known.
        line: from 1; -1 where only the function or module is known.
        function: the function the line is in; empty if unknown.
        module: path of the nn.Module, as in ``Net_0.Linear_1``; empty for none.
        occurrences: of the finding, from here.
        time_ns: of those.
    """

    file: str
    line: int
    function: str
    module: str
    occurrences: int
    time_ns: int

    def __str__(self) -> str:
        if not self.file:
            return self.module
        line = f":{self.line}" if self.line >= 0 else ""
        return f"{os.path.normpath(self.file)}{line}"

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return dict(vars(self))


class Sites:
    """The places of a trace's events."""

    def __init__(self, listing: TorchListing) -> None:
        trace = listing.trace
        self._trace = trace
        frames = trace.table("frames")
        library = np.array([is_library(trace.names[f]) for f in frames["file"]], dtype=np.bool_)
        own = np.append(~library, False)  # the last stands for "no frame"
        calls, events = trace.table("python_calls"), len(trace.events)
        self._call = np.full(events, -1, dtype=np.int64)
        self._call[calls["event"]] = np.arange(len(calls))
        called_here, defined_here = np.zeros(events, np.bool_), np.zeros(events, np.bool_)
        called_here[calls["event"]] = own[calls["caller"]] & (calls["caller_line"] >= 0)
        defined_here[calls["event"]] = own[calls["frame"]]
        self._called_here, self._defined_here = called_here, defined_here
        decisive = called_here | defined_here
        self.known = bool(decisive.any())
        if self.known:
            stacks = Stacks(listing)
            inner = stacks.innermost
            above = nearest_ancestor(stacks.caller, decisive)
            self._site = np.where((inner >= 0) & decisive[inner], inner, above[inner])
            self._site = np.where(inner >= 0, self._site, -1)
            itself = np.arange(events)
            self._site = np.where(decisive, itself, self._site)

    def places(self, events: Values, time_ns: Values) -> tuple[Place, ...]:
        """Where ``events`` come from, most time first; those without a place are left out."""
        keys = self._keys(events)
        distinct, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        count = np.bincount(group, minlength=len(distinct))
        total = np.bincount(group, weights=time_ns, minlength=len(distinct)).astype(np.int64)
        order = np.lexsort((-count, -total))
        places = [
            self._place(distinct[row].tolist(), int(count[row]), int(total[row]))
            for row in order[: MOST_PLACES + 1]
        ]
        return tuple(place for place in places if place.file or place.module)[:MOST_PLACES]

    def _keys(self, events: Values) -> npt.NDArray[np.int64]:
        """Frame, line and module path of each event, -1 for none. Shape (events, 3)."""
        keys = np.full((len(events), 3), -1, dtype=np.int64)
        if self.known:
            site = self._site[events]
            calls, call = self._trace.table("python_calls"), self._call[site]
            # For a call that a function of the program makes the line is recorded; for what the
            # function does itself, such as an annotation, only the function is.
            precise = (site == events) | ~self._defined_here[site]
            precise &= (site >= 0) & self._called_here[site]
            frame = np.where(precise, calls["caller"][call], calls["frame"][call])
            first_line = self._trace.table("frames")["line"][frame]
            keys[:, 0] = np.where(site >= 0, frame, -1)
            keys[:, 1] = np.where(precise, calls["caller_line"][call], first_line)
            keys[:, 1] = np.where(site >= 0, keys[:, 1], -1)
        if len(self._trace.table("modules")):
            keys[:, 2] = attribute_to_modules(self._trace).path[events]
        return keys

    def _place(self, key: list[int], count: int, time_ns: int) -> Place:
        frame, line, path = key
        frames, names = self._trace.table("frames"), self._trace.names
        module = ".".join(attribute_to_modules(self._trace).paths[path]) if path >= 0 else ""
        if frame < 0:
            return Place("", -1, "", module, count, time_ns)
        file, function = names[frames["file"][frame]], names[frames["function"][frame]]
        return Place(file, line, function, module, count, time_ns)
