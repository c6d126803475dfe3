"""Location of an event in the program: source line, or else module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.base.cached_property import cached_property
from opscope.base.program_files import is_library
from opscope.columns.location import Location
from opscope.columns.row_groups import group_rows
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.listing import TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.signatures import group_sums
from opscope.timeline.stacks import forward_source
from opscope.timeline.tree.event_tree import event_arrays, nearest_ancestor, numbers_of_threads

MOST_PLACES = 5
RECORD_STACKS = "Record Python calls (with_stack=True, or --stack) to see the lines of the program."


@dataclass(frozen=True)
class Place(Location):
    """Location of occurrences; without a file only the module is known."""

    module: str = ""  # path of the nn.Module, as in ``blocks.3.mlp.0 (Linear)``; empty for none
    occurrences: int = 0  # number of occurrences of the finding there
    time_ns: int = 0  # their time

    def __str__(self) -> str:
        return super().__str__() or self.module

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return dict(vars(self))


class Sites:
    """Locations of a trace's events: the innermost line of the program around each.

    Arrays have shape (events,).

    Attributes:
        listing: the listed events of the trace.
        known: whether any line or function of the program is known.
        own_frame: which rows of ``frames`` are the program's; the last entry is for "no frame".
        caller: calling function of each call and operator, row in frames; -1 unknown.
        caller_line: line of the call; -1 unknown.
        frame: called Python function, row in frames; -1 for other events.
    """

    def __init__(self, listing: TorchListing) -> None:
        trace = listing.trace
        self.listing = listing
        frames = trace.table("frames")
        library = np.array([is_library(trace.names[f]) for f in frames["file"]], dtype=np.bool_)
        self.own_frame: Flags = np.append(~library, False)
        self.caller, self.caller_line, self.frame = np.full(
            (3, len(trace.events)), -1, dtype=np.int32
        )
        operators, functions = trace.table("operator_calls"), trace.table("python_calls")
        for table in (operators, functions):
            self.caller[table["event"]] = table["caller"]
            self.caller_line[table["event"]] = table["caller_line"]
        self.frame[functions["event"]] = functions["frame"]
        self.called_here: Flags = (self.caller_line >= 0) & self.own_frame[self.caller]
        self.defined_here: Flags = self.own_frame[self.frame]
        self.known = bool(self.called_here.any() or self.defined_here.any())

    @cached_property
    def source(self) -> Values:
        """For each event itself, or the forward operator of a backward one; -1 for none."""
        return forward_source(self.listing)

    @cached_property
    def around(self) -> Values:
        """Innermost event around each, or itself, that has a location in the program.

        For a backward operator it is that of its forward operator, if recorded, otherwise the line
        that began the backward pass. -1 for none.
        """
        return _native.located_events(*self._listed, self.calls).astype(np.int64)

    @cached_property
    def at(self) -> tuple[Rows, Rows]:
        """Frame and line of each event, -1 for none.

        Calls by a function of the program have a recorded line. For its other events, such as
        annotations, it is the line of the first call in it; else of the call before, or after it,
        in the same call of the function; else the function's first line.
        """
        frame, line = _native.lines_of_events(*self._listed, self.calls, self.first_line)
        inside = nearest_ancestor(self.listing.tree.parent, self.defined_here).astype(np.int64)
        has_line = (inside >= 0) & (line != np.append(self.first_line, -1)[frame])
        has_line &= frame == self.frame[inside]
        wanted = (inside >= 0) & ~has_line & (frame == self.frame[inside])
        rows, known = np.flatnonzero(wanted), np.flatnonzero(has_line)
        if len(rows) and len(known):
            size = len(frame)
            keys = np.sort(inside[known] * size + known)
            after = np.searchsorted(keys, inside[rows] * size + rows).clip(0, len(keys) - 1)
            before = np.maximum(after - 1, 0)
            same = [keys[at] // size == inside[rows] for at in (before, after)]
            nearest = np.where(same[0], keys[before], keys[after]) % size
            chosen = same[0] | same[1]
            line[rows[chosen]] = line[nearest[chosen]]
        return frame, line

    @cached_property
    def knows_lines(self) -> bool:
        """Whether a call has its exact line; torch.profiler's files have functions' first lines."""
        callers, lines = self.caller[self.called_here], self.caller_line[self.called_here]
        return bool((lines != self.first_line[callers]).any()) if len(callers) else False

    @property
    def _listed(self) -> tuple[_native.EventArrays, Values, tuple[Flags, Flags]]:
        """Events, thread ids and listed events as native code takes them."""
        listing, trace = self.listing, self.listing.trace
        listed = (np.ascontiguousarray(listing.listed), np.ascontiguousarray(listing.nested))
        return event_arrays(trace), numbers_of_threads(trace), listed

    @property
    def first_line(self) -> Rows:
        """First line of the function in each row of ``frames``."""
        return np.ascontiguousarray(self.listing.trace.table("frames")["line"])

    @property
    def calls(self) -> _native.CallArrays:
        """Data about calls as native code takes it."""
        return self.caller, self.caller_line, self.frame, self.called_here, self.defined_here

    def outer_lines(self) -> Values:
        """Number for the line of the program two levels out of each event; 0 for none."""
        parent = self.listing.tree.parent
        above = nearest_ancestor(parent, self.called_here).astype(np.int64)
        site = self.around
        outer = np.where(site >= 0, above[site], -1)
        line = np.where(outer >= 0, self.caller_line[outer], 0)
        caller = self.caller[outer].astype(np.int64)
        return np.where(outer >= 0, (caller + 1) * 65_537 + line, 0)

    def places(
        self, events: Values, time_ns: Values, with_modules: bool = True
    ) -> tuple[Place, ...]:
        """Locations of ``events``, largest time first; events without one are omitted."""
        frame, line = self.at
        modules = np.full(len(events), -1, dtype=np.int64)
        if with_modules and len(self.listing.trace.table("modules")):
            modules = attribute_to_modules(self.listing.trace).path[events].astype(np.int64)
        groups = group_rows(frame[events], line[events], modules)
        total = group_sums(time_ns, groups.group, len(groups))
        # A line precedes other lines of its modules that took less: one line may call many modules.
        lines = group_rows(*groups.columns[:2]).group
        at_line = np.bincount(lines, weights=total)[lines].astype(np.int64)
        order = np.lexsort((-groups.count, -total, -at_line))[: MOST_PLACES + 1]
        columns = (column[order].tolist() for column in (*groups.columns, groups.count, total))
        places = [self.place(*values) for values in zip(*columns, strict=True)]
        return tuple(place for place in places if place.file or place.module)[:MOST_PLACES]

    def place(self, frame: int, line: int, path: int, count: int, time_ns: int) -> Place:
        """One location; ``path`` is a position among the paths of modules, -1 for none."""
        trace = self.listing.trace
        module = attribute_to_modules(trace).text(path) if path >= 0 else ""
        return Place.at(trace, frame, line, module=module, occurrences=count, time_ns=time_ns)
