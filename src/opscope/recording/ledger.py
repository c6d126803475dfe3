"""Ledger rows: what each source requested, recorded and lost.

A row is (source, what, value). Rows whose ``what`` begins with "dropped" are losses; every view
shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.columns.codes import GpuKind
from opscope.columns.schema import END_WITHOUT_DEVICE_DATA
from opscope.recording.decoded import Decoded
from opscope.recording.gpu.devices import device_properties

Row = tuple[str, str, float]


@dataclass(frozen=True)
class Recorded:
    """Input of the functions that produce rows."""

    decoded: Decoded  # the recording as it becomes a trace
    options: Mapping[str, bool]  # options of the recording, by name


def events(recorded: Recorded) -> Iterator[Row]:
    """Spans of all kinds."""
    account, table = recorded.decoded.account, recorded.decoded.events
    spans, dropped, lost = len(table), account["dropped_spans"], account["lost_spans"]
    yield "events", "requested", spans + dropped + lost
    yield "events", "recorded", spans
    yield "events", f"dropped: {recorded.decoded.no_room}", dropped
    yield "events", "dropped: their thread was ending", lost
    yield "events", "unfinished", int(np.count_nonzero(table["unfinished"]))
    yield "events", "ends without a start", account["unmatched_ends"]
    what = f"dropped: {recorded.decoded.no_room}"
    yield "late ends and results", what, account["dropped_others"]


def arguments(recorded: Recorded) -> Iterator[Row]:
    """Arguments of operators."""
    if not recorded.options["shapes"]:
        return
    yield "arguments", "dropped: unreadable", recorded.decoded.account["cut_payloads"]
    if recorded.options["memory"]:
        # Reused addresses may give two tensors one id.
        yield "tensor ids", "dropped: memory budget", recorded.decoded.account["tensors_not_held"]


def allocations(recorded: Recorded) -> Iterator[Row]:
    """Memory allocations and frees."""
    account = recorded.decoded.account
    count = len(recorded.decoded.tables["allocations"])
    dropped, lost = account["dropped_allocations"], account["lost_allocations"]
    yield "allocations", "requested", count + dropped + lost
    yield "allocations", "recorded", count
    yield "allocations", f"dropped: {recorded.decoded.no_room}", dropped
    yield "allocations", "dropped: their thread was ending", lost
    # A lower bound: found only where an address was reused.
    if recorded.decoded.detail is None:
        yield "frees", "dropped: not reported by torch", account["unreported_frees"]
    else:
        what = "not reported: frees between steps in detail"
        yield "allocations", what, account["unreported_frees"]
    what = "not reported: frees of older memory"
    yield "allocations", what, account["unknown_frees"]
    if not recorded.decoded.reports_memory:
        # For example, because torch is linked into one library.
        yield "allocations", "dropped: this torch reports memory to its own profiler only", 1


def threads(recorded: Recorded) -> Iterator[Row]:
    """Threads: recorded ones, and those recorded incompletely."""
    account = recorded.decoded.account
    count = account["recorded_threads"]
    yield "threads", "recorded", count
    if account["process_threads"]:
        # Some never run an operator (for example, threads of a pool), and some have ended.
        yield "threads", "of the process when it stopped", account["process_threads"]
    # From Python 3.12 on, a tool is set for all threads, so the count is 0 or 1.
    if occupied := recorded.decoded.occupied_threads:
        yield "threads", "dropped: Python calls, which another tool receives", occupied
    if any(recorded.options[level] for level in ("stack", "functions", "own_functions")):
        # Threads begun without the threading module (by _thread, or in C) while a recording of all
        # calls ran.
        what = "dropped: Python calls of threads not started by threading"
        yield "threads", what, account["unhooked_threads"]


def counted(source: str, **tables: str) -> Callable[[Recorded], Iterator[Row]]:
    """Rows for a source without losses: the number of rows of each table, under a given name."""

    def rows(recorded: Recorded) -> Iterator[Row]:
        for what, table in tables.items():
            yield source, f"{what} recorded", len(recorded.decoded.tables[table])

    return rows


def clocks(recorded: Recorded) -> Iterator[Row]:
    """Clock errors during the recording."""
    account = recorded.decoded.account
    jumped, set_by = account["clock_jumped_ns"], account["clock_set_by_ns"]
    if jumped:  # the machine slept, or a virtual machine was moved
        yield "clock", "jumped during the recording, so times are wrong; by ns", float(jumped)
    if set_by:  # durations are right; times of day use the new setting
        yield "clock", "was set during the recording; forward by ns", float(set_by)


def recorder(recorded: Recorded, cost: Mapping[str, float]) -> Iterator[Row]:
    """The recorder itself: notes of its sources, a fault, the cost of one event."""
    yield from recorded.decoded.account["notes"]
    if recorded.decoded.account["fault"]:
        yield "recorder", "stopped early by a fault", 1
    for what, value in cost.items():
        yield "recorder", what, value


def as_columns(rows: list[Row]) -> dict[str, list[Any]]:
    """Columns of the table ``ledger``."""
    return {
        "source": [row[0] for row in rows],
        "what": [row[1] for row in rows],
        "value": [float(row[2]) for row in rows],
    }


def gpu_ledger(recorded: Recorded) -> list[Row]:
    """Device work requested, recorded and lost, with reasons."""
    decoded = recorded.decoded
    if decoded.gpu_refused:
        return [("gpu", "not recorded: CUPTI cannot be used", 1.0)]
    if decoded.devices is None:
        return []
    counts, gpu = decoded.devices.account, decoded.tables["gpu"]
    lost = counts["dropped"] + counts["over_budget"]
    rows: list[Row] = [
        ("gpu", "requested", counts["recorded"] + lost),
        ("gpu", "recorded", counts["recorded"]),
        ("gpu", "dropped: memory budget", counts["over_budget"]),
        ("gpu", f"dropped: by {counts['library_name']}, no buffer free", counts["dropped"]),
        ("gpu", "buffers refused: memory budget", counts["refused_buffers"]),
        ("gpu", "unfinished", counts["unfinished"]),
        ("gpu", "of an unknown kind", counts["unknown"]),
        ("gpu", "left out: calls without information (cudaGetDevice)", counts["noise"]),
        ("gpu", "left out: launched outside the recording", counts["launched_outside"]),
        ("gpu", "left out: began after the recording, launch unknown", counts["begun_later"]),
        ("gpu", "work", int(np.count_nonzero(gpu["kind"] <= GpuKind.SET))),
        ("gpu", "work without its launch", counts["without_launch"]),
        ("gpu", "clock error_ns", counts["clock_error_ns"]),
    ]
    if counts["end_without_data_ns"]:
        rows.append(("gpu", END_WITHOUT_DEVICE_DATA, counts["end_without_data_ns"]))
    return rows + [("gpu", f"not available: {k}", 1) for k in counts["missing_kinds"]]


def gpu_metadata(decoded: Decoded) -> dict[str, Any]:
    """The collecting library or why there was none, and properties of the devices."""
    if decoded.gpu_refused:
        return {"gpu": {"unavailable": decoded.gpu_refused}}
    if decoded.devices is None:
        return {}
    source = decoded.devices.account
    about = {
        "library": source["library_path"],
        f"{source['library_name'].lower()}_version": source["library_version"],
        "clock": "recorder" if source["clock_is_ours"] else "converted",
    }
    properties = list(decoded.gpu_properties) or device_properties()
    return {"gpu": about, **({"deviceProperties": properties} if properties else {})}
