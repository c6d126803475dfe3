"""From decoded columns to a Trace: the parts that are cheaper to say in NumPy than in C++."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from opscope.columns.device_rules import check_device_rules
from opscope.columns.ledger import doubt_rows
from opscope.columns.names import Names, step_number
from opscope.columns.overloads import described
from opscope.columns.schema import EventKind
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.recording import ledger
from opscope.recording.decoded import Decoded
from opscope.recording.facts.process_facts import process_facts
from opscope.recording.facts.source_text import source_lines
from opscope.recording.gpu.account import gpu_metadata
from opscope.recording.sources import SOURCES, RecordingOptions


def with_ids_from(decoded: Decoded, first: int) -> Decoded:
    """With ids for other tools that count from ``first``, unless they have ids already."""
    events = decoded.events
    if first == 1 or events.has("record_function_id"):
        return decoded
    ids = np.arange(first, first + len(events), dtype=np.int64)
    return decoded.with_tables(events=events.replaced({"record_function_id": ids}))


def assemble_trace(
    decoded: Decoded,
    options: RecordingOptions,
    cost: Mapping[str, float],
    process: Mapping[str, Any] | None = None,
    more: Iterable[ledger.Row] = (),
) -> TraceData:
    """Build the trace of one window.

    Args:
        decoded: with devices and everything else that was recorded.
        options: what the window asked for.
        cost: of the recording, as it was measured.
        process: what is known of the one that recorded; None for this one.
        more: further rows of the ledger.
    """
    events = decoded.events.replaced({"step": step_of_events(decoded.events, decoded.names)})
    decoded = decoded.with_tables(events=_with_engine_links(events, decoded.names))
    lines = source_lines(decoded) if options.source_lines else {}
    metadata = _metadata(decoded, options, process_facts() if process is None else process)
    recorded = ledger.Recorded(decoded, asdict(options))
    rows = [
        row
        for source in SOURCES
        if source.ledger is not None and source.is_wanted(options)
        for row in source.ledger(recorded)
    ]
    rows += [*ledger.recorder(recorded, cost), *more]
    trace = _trace(decoded, rows, metadata, lines)
    if not len(trace.table("gpu")):
        return trace
    rules = check_device_rules(trace)
    rows += [("device rules", what, float(value)) for what, value in rules.ledger.items()]
    rows += doubt_rows(rules.doubts)
    return _trace(decoded, rows, metadata, lines)


def step_of_events(events: Table, names: Names) -> np.ndarray[Any, np.dtype[np.int32]]:
    """N of the ``ProfilerStep#N`` each event started in, on any thread; -1 outside steps."""
    start_ns = events["start_ns"]
    step = np.full(len(start_ns), -1, dtype=np.int32)
    annotations = np.flatnonzero(events["kind"] == EventKind.ANNOTATION)
    used = np.unique(events["name"][annotations])
    numbers = {int(name): step_number(names[name]) for name in used}
    steps = {name: number for name, number in numbers.items() if number is not None}
    for event in annotations[np.isin(events["name"][annotations], list(steps))]:
        end_ns = start_ns[event] + events["duration_ns"][event]
        last = np.searchsorted(start_ns, end_ns, side="left")
        step[event:last] = steps[int(events["name"][event])]
    return step


_ENGINE_PREFIX = "autograd::engine::evaluate_function: "


def _with_engine_links(events: Table, names: Names) -> Table:
    """With the forward link of the node that each of the autograd engine's own spans evaluates.

    The engine emits its span before it knows the node's; the node is the first thing inside it.
    torch fills these in likewise (``set_autograd_evaluate``, torch/csrc/profiler/collection.cpp).
    """
    engine = np.flatnonzero(np.isin(events["name"][:-1], engine_names(names)))
    engine = engine[events["parent"][engine + 1] == engine]
    linked = {}
    for column in ("sequence_number", "forward_thread"):
        linked[column] = events[column].copy()
        linked[column][engine] = linked[column][engine + 1]
    return events.replaced(linked)


def engine_names(names: Names) -> list[int]:
    """Rows of the names of the autograd engine's own spans."""
    return [i for i, name in enumerate(names) if name.startswith(_ENGINE_PREFIX)]


def _trace(
    decoded: Decoded, rows: list[ledger.Row], metadata: dict[str, Any], lines: dict[str, Any]
) -> TraceData:
    more = {"ledger": ledger.as_columns(rows), "source_lines": lines}
    tables: dict[str, Any] = {**decoded.tables, **more}
    return TraceData(tables, decoded.names, metadata)


def _overloads(decoded: Decoded, options: RecordingOptions) -> dict[str, Any]:
    """How the operators can be called, which says what memory was for; nothing without memory."""
    if not (options.memory and options.shapes and "torch" in sys.modules):
        return {}
    events = decoded.events
    used = np.unique(events["name"][events["kind"] == EventKind.OPERATOR])
    return {"overloads": described(decoded.names[name] for name in used.tolist())}


def _metadata(
    decoded: Decoded, options: RecordingOptions, process: Mapping[str, Any]
) -> dict[str, Any]:
    account = decoded.account
    return {
        "start_ns": account["start_ns"],
        "end_ns": account["end_ns"],
        "end_monotonic_ns": account["end_monotonic_ns"],
        "options": asdict(options),
        **process,
        **({"fault": account["fault"]} if account["fault"] else {}),
        **gpu_metadata(decoded),
        **_overloads(decoded, options),
        **({"process_groups": dict(decoded.process_groups)} if decoded.process_groups else {}),
    }
