"""Which lines of the program its time was spent on, from the recorded Python calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.location import Location
from opscope.columns.trace_data import TraceData
from opscope.timeline.device_time import measure_device_time
from opscope.timeline.listing import TorchListing
from opscope.timeline.signatures import first_of_each
from opscope.timeline.tree.ancestry import nearest_ancestor
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.own_time import outermost_of
from opscope.timeline.tree.self_time import minus_children

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SourceLines:
    """One row per line that called something, in order of first call. Shape (rows,) each.

    Attributes:
        places: the lines.
        calls: calls made from the line.
        total_ns: time in them; of calls within calls of the same line only the outermost count.
        self_ns: that outside the calls made further down.
        device_ns: device work launched in them.
    """

    places: list[Location]
    calls: Values
    total_ns: Values
    self_ns: Values
    device_ns: Values

    def __len__(self) -> int:
        return len(self.places)


def source_lines(trace: TraceData, listing: TorchListing | None = None) -> SourceLines:
    """Sum the calls made from every line; empty if no Python calls were recorded."""
    listing = listing or TorchListing(trace)
    calls = trace.table("python_calls")
    made = np.flatnonzero(calls["caller"] >= 0)
    event = calls["event"][made].astype(np.int64)
    line, caller, number = _lines(calls["caller"][made], calls["caller_line"][made])
    lines = len(caller)
    is_call = python_events(trace)
    around = nearest_ancestor(listing.tree.parent, is_call)
    own = minus_children(np.where(is_call, around, -1), listing.duration_ns)
    outermost = outermost_of(trace, event, line)
    device = measure_device_time(listing).total_ns
    return SourceLines(
        places=[
            Location.at(trace, *where)
            for where in zip(caller.tolist(), number.tolist(), strict=True)
        ],
        calls=np.bincount(line, minlength=lines),
        total_ns=_sum(line, np.where(outermost, listing.duration_ns[event], 0), lines),
        self_ns=_sum(line, own[event], lines),
        device_ns=_sum(line, np.where(outermost, device[event], 0), lines),
    )


def _lines(
    caller: npt.NDArray[np.int32], number: npt.NDArray[np.int32]
) -> tuple[Values, Values, Values]:
    """The line of every call, and frame and number of every line."""
    group, first = first_of_each(caller.astype(np.uint64) << np.uint64(32) | number.view(np.uint32))
    return group, caller[first].astype(np.int64), number[first].astype(np.int64)


def _sum(group: Values, values: Values, groups: int) -> Values:
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
