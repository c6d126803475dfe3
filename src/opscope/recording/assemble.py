"""From decoded columns to a Trace: the parts that are cheaper to say in NumPy than in C++."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from opscope.recording import ledger
from opscope.recording.distributed_job import describe_job
from opscope.recording.gpu_account import gpu_metadata
from opscope.recording.sources import SOURCES, RecordingOptions
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
    recorded = ledger.Recorded(decoded, tables, asdict(options))
    rows = [
        row
        for source in SOURCES
        if source.ledger is not None and source.is_wanted(options)
        for row in source.ledger(recorded)
    ]
    tables["ledger"] = ledger.as_columns([*rows, *ledger.recorder(recorded, cost_ns)])
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
