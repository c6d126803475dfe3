"""The ledger: what the recorder says of its own recording, source by source.

Rows are (source, what, value). What begins with "dropped" is a loss, and every view says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = tuple[str, str, float]


@dataclass(frozen=True)
class Recorded:
    """What rows are made of.

    Attributes:
        decoded: what ``_native.decode`` returned, and what listeners put beside it.
        tables: of the trace.
        options: of the recording, by name.
    """

    decoded: dict[str, Any]
    tables: dict[str, Any]
    options: Mapping[str, bool]


def events(recorded: Recorded) -> Iterator[Row]:
    """Spans of all kinds."""
    decoded, table = recorded.decoded, recorded.tables["events"]
    spans, dropped, lost = len(table["start_ns"]), decoded["dropped_spans"], decoded["lost_spans"]
    yield "events", "requested", spans + dropped + lost
    yield "events", "recorded", spans
    yield "events", "dropped: memory budget", dropped
    yield "events", "dropped: their thread was ending", lost
    yield "events", "unfinished", int(np.count_nonzero(table["unfinished"]))
    yield "events", "ends without a start", decoded["unmatched_ends"]
    yield "late ends and results", "dropped: memory budget", decoded["dropped_others"]


def arguments(recorded: Recorded) -> Iterator[Row]:
    """Arguments of operators."""
    if not recorded.options["shapes"]:
        return
    yield "arguments", "dropped: unreadable", recorded.decoded["cut_payloads"]
    if recorded.options["memory"]:
        # Their addresses may have been used again, and with them their ids.
        yield "tensor ids", "dropped: memory budget", recorded.decoded["tensors_not_held"]


def allocations(recorded: Recorded) -> Iterator[Row]:
    """Allocations and frees."""
    decoded = recorded.decoded
    count = len(recorded.tables["allocations"]["time_ns"])
    dropped, lost = decoded["dropped_allocations"], decoded["lost_allocations"]
    yield "allocations", "requested", count + dropped + lost
    yield "allocations", "recorded", count
    yield "allocations", "dropped: memory budget", dropped
    yield "allocations", "dropped: their thread was ending", lost
    # Told by an address that was allocated again, so there may have been more.
    yield "frees", "dropped: their thread was not heard", decoded["unheard_frees"]
    # torch reports a free only of what it heard being allocated.
    yield "allocations", "freed unreported: from before", decoded["unknown_frees"]


def threads(recorded: Recorded) -> Iterator[Row]:
    """Which threads there were, which were seen, and who of those could not be heard in full."""
    decoded = recorded.decoded
    count = decoded["recorded_threads"]
    yield "threads", "recorded", count
    if decoded["process_threads"]:
        # Some never run an operator (those of a pool inside one, say), and some have ended since.
        yield "threads", "of the process when it stopped", decoded["process_threads"]
    if recorded.options["memory"]:
        unheard = decoded["unheard_threads"]
        yield "threads", "heard of memory", count - unheard
        yield "threads", "dropped: memory goes to another profiler", unheard
        yield "events", "without their memory", decoded["unheard_spans"]
    # From Python 3.12 on tools are for all threads, so that it is one or none.
    occupied = decoded.get("occupied_threads", 0)
    if occupied:
        yield "threads", "dropped: Python calls go to another tool", occupied
    if recorded.options["stack"]:
        # They began past the threading module: by _thread, or in C.
        yield "threads", "dropped: Python calls were not heard", decoded["unhooked_threads"]


def clocks(recorded: Recorded) -> Iterator[Row]:
    """What the clocks did while this was recorded that clocks should not do."""
    jumped, set_by = recorded.decoded["clock_jumped_ns"], recorded.decoded["clock_set_by_ns"]
    if jumped:  # the machine slept, or a virtual one was moved: times on both sides do not fit
        yield "clock", "jumped while recording, so that times are not right; by ns", float(jumped)
    if set_by:  # durations are right; times of day are those after it was set
        yield "clock", "was set while recording; forward by ns", float(set_by)


def recorder(recorded: Recorded, cost_ns: Mapping[str, float]) -> Iterator[Row]:
    """The recorder itself: whether it failed, and what a span cost."""
    if recorded.decoded["fault"]:
        yield "recorder", "stopped early by a fault", 1
    for level, value in cost_ns.items():
        yield "recorder", f"cost_ns: {level}", value


def as_columns(rows: list[Row]) -> dict[str, list[Any]]:
    """The table of the trace."""
    return {
        "source": [row[0] for row in rows],
        "what": [row[1] for row in rows],
        "value": [float(row[2]) for row in rows],
    }
