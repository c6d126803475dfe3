"""From decoded columns to a Trace: the parts that are cheaper to say in NumPy than in C++."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from opscope.options import RecordingOptions
from opscope.recording.distributed_job import describe_job
from opscope.recording.gpu_account import gpu_ledger, gpu_metadata
from opscope.trace.device_rules import check_device_rules
from opscope.trace.names import Names
from opscope.trace.schema import EventKind
from opscope.trace.table import ListColumn
from opscope.trace.trace import Trace

_DECODED = (
    "events",
    "tensors",
    "scalars",
    "allocations",
    "python_calls",
    "script_calls",
    "frames",
    "modules",
    "optimizers",
    "parameters",
    "threads",
)
_OF_DEVICES = ("gpu", "runtime_calls", "gpu_graph_nodes", "gpu_memory", "gpu_overheads")
STEP_PREFIX = "ProfilerStep#"


def assemble_trace(
    decoded: dict[str, Any], options: RecordingOptions, cost_ns: dict[str, float]
) -> Trace:
    """Build the trace of one window.

    Args:
        decoded: what ``_native.decode`` returned.
        options: what the window asked for.
        cost_ns: measured cost of recording one span, by level.
    """
    names = Names(decoded["name_offsets"], decoded["name_text"])
    tables: dict[str, Any] = {
        name: {
            column: ListColumn(*data) if isinstance(data, tuple) else data
            for column, data in decoded[name].items()
        }
        for name in (*_DECODED, *_OF_DEVICES)
        if name in decoded
    }
    tables["events"]["step"] = step_of_events(tables["events"], names)
    _link_engine_spans(tables["events"], names)
    tables["ledger"] = _ledger(decoded, tables, options, cost_ns)
    trace = Trace(tables, names, _metadata(decoded, options))
    if not len(trace.table("gpu")):
        return trace
    rules = check_device_rules(trace).ledger
    for column, values in (
        ("source", ["device rules"] * len(rules)),
        ("what", list(rules)),
        ("value", [float(value) for value in rules.values()]),
    ):
        tables["ledger"][column] += values
    return Trace(tables, names, trace.metadata)


def step_of_events(events: dict[str, Any], names: Names) -> np.ndarray[Any, np.dtype[np.int32]]:
    """N of the ``ProfilerStep#N`` each event started in, on any thread; -1 outside steps."""
    start_ns = events["start_ns"]
    step = np.full(len(start_ns), -1, dtype=np.int32)
    annotations = np.flatnonzero(events["kind"] == EventKind.ANNOTATION)
    used = np.unique(events["name"][annotations])
    numbers = {int(name): _step_number(names[name]) for name in used}
    steps = {name: number for name, number in numbers.items() if number is not None}
    for event in annotations[np.isin(events["name"][annotations], list(steps))]:
        end_ns = start_ns[event] + events["duration_ns"][event]
        last = np.searchsorted(start_ns, end_ns, side="left")
        step[event:last] = steps[int(events["name"][event])]
    return step


_ENGINE_PREFIX = "autograd::engine::evaluate_function: "


def _link_engine_spans(events: dict[str, Any], names: Names) -> None:
    """Give the autograd engine's own spans the forward link of the node they evaluate.

    The engine emits its span before it knows the node's; the node is the first thing inside it.
    torch fills these in likewise (``set_autograd_evaluate``, torch/csrc/profiler/collection.cpp).
    """
    engine_names = [i for i, name in enumerate(names) if name.startswith(_ENGINE_PREFIX)]
    engine = np.flatnonzero(np.isin(events["name"][:-1], engine_names))
    engine = engine[events["parent"][engine + 1] == engine]
    for column in ("sequence_number", "forward_thread"):
        values = events[column].copy()
        values[engine] = values[engine + 1]
        events[column] = values


def _step_number(name: str) -> int | None:
    number = name[len(STEP_PREFIX) :]
    return int(number) if name.startswith(STEP_PREFIX) and number.isdigit() else None


def _ledger(
    decoded: dict[str, Any],
    tables: dict[str, Any],
    options: RecordingOptions,
    cost_ns: dict[str, float],
) -> dict[str, list[Any]]:
    spans = len(tables["events"]["start_ns"])
    dropped = decoded["dropped_spans"]
    rows: list[tuple[str, str, float]] = [
        ("events", "requested", spans + dropped + decoded["lost_spans"]),
        ("events", "recorded", spans),
        ("events", "dropped: memory budget", dropped),
        ("events", "dropped: their thread was ending", decoded["lost_spans"]),
        ("events", "unfinished", int(np.count_nonzero(tables["events"]["unfinished"]))),
        ("events", "ends without a start", decoded["unmatched_ends"]),
        ("late ends and results", "dropped: memory budget", decoded["dropped_others"]),
    ]
    if options.shapes:
        rows.append(("arguments", "dropped: unreadable", decoded["cut_payloads"]))
    if options.shapes and options.memory:
        # Their addresses may have been used again, and with them their ids.
        rows.append(("tensor ids", "dropped: memory budget", decoded["tensors_not_held"]))
    if options.memory:
        allocations = len(tables["allocations"]["time_ns"])
        dropped = decoded["dropped_allocations"]
        lost = decoded["lost_allocations"]
        rows += [
            ("allocations", "requested", allocations + dropped + lost),
            ("allocations", "recorded", allocations),
            ("allocations", "dropped: memory budget", dropped),
            ("allocations", "dropped: their thread was ending", lost),
            # Told by an address that was allocated again, so there may have been more.
            ("frees", "dropped: their thread was not heard", decoded["unheard_frees"]),
            # torch reports a free only of what it heard being allocated.
            ("allocations", "freed unreported: from before", decoded["unknown_frees"]),
        ]
    rows += _threads(decoded, options) + gpu_ledger(decoded, tables) + _clocks(decoded)
    if decoded["fault"]:
        rows.append(("recorder", "stopped early by a fault", 1))
    rows += [("recorder", f"cost_ns: {level}", value) for level, value in cost_ns.items()]
    return {
        "source": [row[0] for row in rows],
        "what": [row[1] for row in rows],
        "value": [float(row[2]) for row in rows],
    }


def _threads(decoded: dict[str, Any], options: RecordingOptions) -> list[tuple[str, str, float]]:
    """Which threads there were, which were seen, and who of those could not be heard in full."""
    recorded = decoded["recorded_threads"]
    rows: list[tuple[str, str, float]] = [("threads", "recorded", recorded)]
    if decoded["process_threads"]:
        # Some never run an operator (those of a pool inside one, say), and some have ended since.
        rows.append(("threads", "of the process when it stopped", decoded["process_threads"]))
    if options.memory:
        unheard = decoded["unheard_threads"]
        rows += [
            ("threads", "heard of memory", recorded - unheard),
            ("threads", "dropped: memory goes to another profiler", unheard),
            ("events", "without their memory", decoded["unheard_spans"]),
        ]
    # From Python 3.12 on tools are for all threads, so that it is one or none.
    occupied = decoded.get("occupied_threads", 0)
    if occupied:
        rows.append(("threads", "dropped: Python calls go to another tool", occupied))
    if options.stack:
        # They began past the threading module: by _thread, or in C.
        unhooked = decoded["unhooked_threads"]
        rows.append(("threads", "dropped: Python calls were not heard", unhooked))
    return rows


def _clocks(decoded: dict[str, Any]) -> list[tuple[str, str, float]]:
    """What the clocks did while this was recorded that clocks should not do."""
    jumped, set_by = decoded["clock_jumped_ns"], decoded["clock_set_by_ns"]
    rows = []
    if jumped:  # the machine slept, or a virtual one was moved: times on both sides do not fit
        rows.append(
            ("clock", "jumped while recording, so that times are not right; by ns", float(jumped))
        )
    if set_by:  # durations are right; times of day are those after it was set
        rows.append(("clock", "was set while recording; forward by ns", float(set_by)))
    return rows


def _metadata(decoded: dict[str, Any], options: RecordingOptions) -> dict[str, Any]:
    torch, job = sys.modules.get("torch"), describe_job()
    return {
        "start_ns": decoded["start_ns"],
        "end_ns": decoded["end_ns"],
        "options": asdict(options),
        "process_id": os.getpid(),
        "host_name": socket.gethostname(),
        "program": str(sys.argv[0]) if sys.argv else "",  # programs put anything there
        "python_version": platform.python_version(),
        "torch_version": str(getattr(torch, "__version__", "")),
        **({"fault": decoded["fault"]} if decoded["fault"] else {}),
        **gpu_metadata(decoded),
        **({"distributedInfo": job} if job else {}),  # under the key torch uses
    }
