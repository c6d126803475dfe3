"""Builds a trace from decoded columns: the parts that are simpler in NumPy than in C++.

Also reads source lines, because a file may change after the run.
"""

from __future__ import annotations

import linecache
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any

import numpy as np

from opscope.base.program_files import is_library, lines_of_source
from opscope.columns.device_rules import check_device_rules
from opscope.columns.ledger import doubt_rows
from opscope.columns.names import ENGINE_PREFIX, Names, step_number
from opscope.columns.overloads import described
from opscope.columns.schema import EventKind
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.recording import ledger
from opscope.recording.decoded import Decoded
from opscope.recording.detail import detail_metadata
from opscope.recording.facts.process_facts import process_facts
from opscope.recording.ledger import gpu_metadata
from opscope.recording.sources import SOURCES, RecordingOptions


def assemble_trace(
    decoded: Decoded,
    options: RecordingOptions,
    cost: Mapping[str, float],
    process: Mapping[str, Any] | None = None,
    more: Iterable[ledger.Row] = (),
) -> TraceData:
    """Build the trace of one window."""
    events, names = decoded.events, decoded.names
    events = events.replaced({"step": OngoingSteps(names).of(events)})
    decoded = decoded.with_tables(events=with_engine_links(events, engine_names(names)))
    lines = source_lines(decoded) if options.source_lines else {}
    metadata = _metadata(decoded, options, process_facts() if process is None else process)
    recorded = ledger.Recorded(decoded, asdict(options))
    rows = [
        row
        for source in SOURCES
        if source.ledger is not None and source.is_enabled_by(options)
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


class OngoingSteps:
    """Assigns events to the ``ProfilerStep#N`` spans of any thread, part by part of a recording."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: list[tuple[int, int]] = []  # open steps: end and number; outermost first

    def of(self, events: Table) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Step number of each event of the next part; -1 outside steps. Shape (events,)."""
        start_ns = events["start_ns"]
        step = np.full(len(start_ns), -1, dtype=np.int32)
        for end_ns, number in self._open:
            step[: np.searchsorted(start_ns, end_ns, side="left")] = number
        annotations = np.flatnonzero(events["kind"] == EventKind.ANNOTATION)
        used = np.unique(events["name"][annotations])
        numbers = {int(name): step_number(self._names[name]) for name in used}
        steps = {name: number for name, number in numbers.items() if number is not None}
        for event in annotations[np.isin(events["name"][annotations], list(steps))]:
            end_ns = int(start_ns[event] + events["duration_ns"][event])
            number = steps[int(events["name"][event])]
            step[event : np.searchsorted(start_ns, end_ns, side="left")] = number
            self._open.append((end_ns, number))
        last = int(start_ns[-1]) if len(start_ns) else 0
        self._open = [(end_ns, number) for end_ns, number in self._open if end_ns > last]
        return step


def with_engine_links(
    events: Table, engine: Sequence[int], first: int = 0, after: Table | None = None
) -> Table:
    """Copy an autograd node's sequence number and forward thread to the engine's span around it.

    The engine opens its span before it knows the node; the node is the first event inside the span.
    torch does the same (``set_autograd_evaluate``, torch/csrc/profiler/collection.cpp). For a part
    of a recording, ``first`` is the row of its first event, and ``after`` the event that follows
    the part.
    """
    rows = np.flatnonzero(np.isin(events["name"], engine))
    if not len(rows):
        return events
    is_cut = rows[-1] + 1 == len(events)

    def following(column: str) -> Any:
        values = events[column][np.minimum(rows + 1, len(events) - 1)]
        if is_cut:
            values[-1] = -1 if after is None else after[column][0]
        return values

    evaluates = following("parent") == rows + first
    linked = {}
    for column in ("sequence_number", "forward_thread"):
        linked[column] = events[column].copy()
        linked[column][rows[evaluates]] = following(column)[evaluates]
    return events.replaced(linked)


def engine_names(names: Names) -> list[int]:
    """Rows of ``names`` with spans of the autograd engine itself."""
    return [i for i, name in enumerate(names) if name.startswith(ENGINE_PREFIX)]


def _trace(
    decoded: Decoded, rows: list[ledger.Row], metadata: dict[str, Any], lines: dict[str, Any]
) -> TraceData:
    more = {"ledger": ledger.as_columns(rows), "source_lines": lines}
    tables: dict[str, Any] = {**decoded.tables, **more}
    return TraceData(tables, decoded.names, metadata)


def knows_overloads(options: RecordingOptions) -> bool:
    """Whether the metadata gets operator overloads; they need torch, and explain uses of memory."""
    return options.memory and options.shapes and "torch" in sys.modules


def _overloads(decoded: Decoded, options: RecordingOptions) -> dict[str, Any]:
    if not knows_overloads(options):
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
        **detail_metadata(decoded, options),
        **process,
        **({"fault": account["fault"]} if account["fault"] else {}),
        **gpu_metadata(decoded),
        **_overloads(decoded, options),
        **({"process_groups": dict(decoded.process_groups)} if decoded.process_groups else {}),
    }


_AFTER = 3
"""Lines kept after each line with a call: lines that wait or compute have no call of their own."""
_MOST_LINES = 10_000
_LONGEST = 200


def source_lines(decoded: Decoded) -> dict[str, Any]:
    """Columns of the table ``source_lines``; without lines that cannot be read."""
    file: list[int] = []
    line: list[int] = []
    text: list[str] = []
    for row, numbers in _lines_by_file(decoded).items():
        lines = _lines_of(decoded.names[row])
        for number in sorted({one + more for one in numbers for more in range(_AFTER + 1)}):
            statement = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            if statement and len(file) < _MOST_LINES:
                file.append(row)
                line.append(number)
                text.append(statement[:_LONGEST])
    return {"file": file, "line": line, "text": text} if file else {}


def _lines_of(file: str) -> list[str]:
    """Lines of a source file, or of a module in a zip file, whose loader has the text."""
    if lines := lines_of_source(file):
        return lines
    for module in list(sys.modules.values()):
        # Not getattr(): it would make lazy modules load their parts.
        inside = vars(module) if isinstance(module, ModuleType) else {}
        if inside.get("__file__") == file:
            return linecache.getlines(file, inside)
    return []


def _lines_by_file(decoded: Decoded) -> dict[int, list[int]]:
    """Line numbers to keep, by row of the file: first lines of own functions, and their calls."""
    frames = decoded.tables["frames"]
    file, first = frames["file"], frames["line"]
    names = decoded.names
    used = np.unique(file).tolist()
    own = [row for row in used if row >= 0 and not is_library(names[row])]
    is_own = np.isin(file, own)
    places = {*_pairs(file[is_own], first[is_own])}
    for calls in (decoded.tables["python_calls"], decoded.tables["operator_calls"]):
        made = calls["caller"] >= 0
        caller, number = calls["caller"][made], calls["caller_line"][made]
        inside = is_own[caller]
        places |= {*_pairs(file[caller[inside]], number[inside])}
    found: defaultdict[int, list[int]] = defaultdict(list)
    for row, at in sorted(places):
        found[row].append(at)
    return found


def _pairs(file: Any, line: Any) -> list[tuple[int, int]]:
    both = np.unique(file.astype(np.int64) << 32 | line.astype(np.int64) & 0xFFFFFFFF)
    return list(zip((both >> 32).tolist(), (both & 0xFFFFFFFF).tolist(), strict=True))
