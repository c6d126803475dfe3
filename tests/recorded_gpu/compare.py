"""Whether a trace says of devices what a file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.recorded_gpu.job import KERNEL, SYNCHRONISATION, Work
from tests.recorded_gpu.play import Played

from opscope.api.trace import Trace
from opscope.columns.codes import EventKind

ROUNDING_NS = 2
"""A time goes from nanoseconds to ticks and back."""

_MOST_CLOCK_ERROR_NS = 1_000.0
"""What a trace says of that is believed up to here."""

RATE_ERROR = 1e-7
"""Of the recorder's clock: its rate comes from two readings, seconds apart, some tens of
nanoseconds off each (more on a busy machine), and work of long files lies far behind the second."""

_NOISE = {(0, 10), (0, 16), (0, 17), (0, 133), (0, 134), (0, 136)} | {(1, 304), (1, 392), (1, 686)}
"""Calls that tell nothing (api, function), which are left out."""

Row = dict[str, Any]


def differences(
    played: Played, trace: Trace, shown: int = 10, rounding_ns: int = ROUNDING_NS
) -> list[str]:
    """What the trace has otherwise than the file, in words; empty where they are equal.

    Args:
        played: what of the file was played.
        trace: what was recorded of that, with CUDA events.
        shown: how many activities to name.
        rounding_ns: how far off a time may be.
    """
    found = [*_work_differences(played, trace, rounding_ns)]
    more = [f"... and {len(found) - shown:,} more"] if len(found) > shown else []
    return [
        *found[:shown],
        *more,
        *_total_differences(played, trace),
        *_call_differences(played, trace),
    ]


def kept_of(played: Played, trace: Trace) -> tuple[int, list[str]]:
    """How many activities are in the trace, and those that are not in the file.

    For a recording that lost some: a call that was lost is no difference.
    """
    wanted = Counter(_identity(row) for row in _wanted(played))
    found = Counter(_identity(row) for row in _found(trace))
    return found.total(), [f"not in the file: {row}" for row in found - wanted]


def _identity(row: Row) -> tuple[Any, ...]:
    left_out = ("start_ns", "duration_ns", "around", "waits_for", "waits_for_stream", "device")
    left_out += ("captured_in",)
    return tuple(value for name, value in row.items() if name not in left_out)


def _work_differences(played: Played, trace: Trace, rounding_ns: int) -> Iterator[str]:
    wanted, found = sorted(_wanted(played), key=_order), sorted(_found(trace), key=_order)
    if len(wanted) != len(found):
        yield f"{len(found):,} activities instead of {len(wanted):,}"
    if not found or not wanted:
        return
    first = min(row["start_ns"] for row in wanted)
    moved = min(row["start_ns"] for row in found) - first
    clock_ns = clock_error_ns(trace)
    for ours, theirs in zip(found, wanted, strict=False):
        ours["start_ns"] -= moved
        allowed = {
            "start_ns": rounding_ns + clock_ns + (theirs["start_ns"] - first) * RATE_ERROR,
            "duration_ns": rounding_ns + theirs["duration_ns"] * RATE_ERROR,
        }
        for what, value in theirs.items():
            near = what in allowed and abs(ours[what] - value) <= allowed[what]
            if ours[what] != value and not near:
                yield f"{theirs['name'][:60]}: {what} is {ours[what]}, not {value}"


def clock_error_ns(trace: Trace) -> float:
    """How far off the trace says its times of devices may be: of the playing machine's clocks."""
    return min(trace.ledger.get("gpu", {}).get("clock error_ns", 0.0), _MOST_CLOCK_ERROR_NS)


def _order(row: Row) -> tuple[Any, ...]:
    return row["correlation"], row["kind"], row["stream"], row["start_ns"], row["name"]


def _wanted(played: Played) -> Iterator[Row]:
    for work in played.work:
        waits = work.waits_for >= 0
        yield {
            "kind": work.kind, "name": work.name, "start_ns": work.start_ns,
            "duration_ns": work.end_ns - work.start_ns, "device": work.device,
            "context": work.context, "stream": work.stream, "correlation": work.correlation,
            "bytes": work.size_bytes, "graph": work.graph, "registers": work.registers,
            "shared_memory": work.shared_memory, "graph_node": work.graph_node,
            "waits_for": work.waits_for, "waits_for_stream": work.waits_for_stream if waits else -1,
            "grid": tuple(_axes(work, work.grid)), "block": tuple(_axes(work, work.block)),
            "around": played.around.get(work.correlation, []),
            "captured_in": played.captured.get(work.graph_node, []),
        }  # fmt: skip


def _axes(work: Work, given: tuple[int, ...]) -> list[int]:
    return list(given or (0, 0, 0)) if work.kind == KERNEL else []


def _found(trace: Trace) -> Iterator[Row]:
    gpu = trace.table("gpu")
    grid, block = gpu.lists("grid"), gpu.lists("block")
    columns = {
        "kind": "kind", "start_ns": "start_ns", "duration_ns": "duration_ns",
        "device": "device_index", "context": "context", "stream": "stream",
        "correlation": "correlation_id", "bytes": "size_bytes", "graph": "graph",
        "registers": "registers_per_thread", "shared_memory": "shared_memory_bytes",
        "graph_node": "graph_node", "waits_for": "wait_on_cuda_event_record_corr_id",
        "waits_for_stream": "wait_on_stream",
    }  # fmt: skip
    values = {name: gpu[column].tolist() for name, column in columns.items()}
    names, launches = gpu["name"].tolist(), gpu["launch"].tolist()
    captures = gpu["capture"].tolist()
    for row in np.flatnonzero(gpu["kind"] <= SYNCHRONISATION).tolist():
        found = {name: column[row] for name, column in values.items()}
        found |= {
            "grid": tuple(grid[row]),
            "block": tuple(block[row]),
            "name": trace.names[names[row]],
        }
        first = ("kind", "name", "start_ns")
        ordered = {name: found[name] for name in (*first, *(n for n in columns if n not in first))}
        ordered |= {"grid": found["grid"], "block": found["block"]}
        around = {"around": _around(trace, launches[row])}
        yield ordered | around | {"captured_in": _around(trace, captures[row])}


def _around(trace: Trace, event: int) -> list[str]:
    names, parents = trace.events["name"], trace.events["parent"]
    found = []
    while event >= 0:
        found.append(trace.names[int(names[event])])
        event = int(parents[event])
    return found


def _total_differences(played: Played, trace: Trace) -> Iterator[str]:
    """Time and number per name."""
    gpu = trace.table("gpu")
    names = np.array([trace.names[row] for row in gpu["name"].tolist()], dtype=object)
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for work in played.work:
        times[work.name] += work.end_ns - work.start_ns
        counts[work.name] += 1
    for name in counts:
        rows = np.flatnonzero((gpu["kind"] <= SYNCHRONISATION) & (names == name))
        total = int(gpu["duration_ns"][rows].sum())
        if len(rows) != counts[name]:
            yield f"{len(rows)} of {name[:60]}, not {counts[name]}"
        elif abs(total - times[name]) > ROUNDING_NS * len(rows):
            yield f"{name[:60]} took {total} ns, not {times[name]}"


def _call_differences(played: Played, trace: Trace) -> Iterator[str]:
    """Calls of the runtime by name; of the driver, those that are shown at all."""
    wanted = Counter(
        span.name
        for span in played.calls.values()
        if span.api == 0 and (0, span.function) not in _NOISE
    )
    calls = trace.table("runtime_calls")
    runtime = calls["event"][calls["api"] == 0]
    found = Counter(trace.event_name(int(event)) for event in runtime)
    if wanted != found:
        yield f"calls: missing {wanted - found}, too many {found - wanted}"
    if (trace.events["kind"][calls["event"]] != EventKind.RUNTIME_CALL).any():
        yield "a call's event is none"


def told_of_noise(played: Played) -> int:
    """How many calls a library that cannot leave them out reports in vain."""
    return sum((span.api, span.function) in _NOISE for span in played.calls.values())
