"""Build a :class:`Trace` from a readable description, so a test is a picture of a timeline.

    trace = build_trace([
        span("ProfilerStep#0", 0, 100),
        span("aten::mm", 10, 30, inputs=[tensor(2, 3), tensor(3, 4)], sequence_number=5),
        ("MmBackward0", 50, 70, "autograd"),                 # a tuple: name, start, end, thread
    ], allocations=[allocation(12, 32, address=0x10)])

    trace = build_trace('''
        ProfilerStep#0      0..100
          aten::mm         10..30
        MmBackward0        50..70   @autograd
    ''')

Times are microseconds after ``ORIGIN_NS``. Row i of the description is event i, so the description
has to be in order of start. Parents come from nesting per thread unless given; ``step`` comes from
the ``ProfilerStep#N`` span a span starts in.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import (
    TABLES,
    AllocationAction,
    EventKind,
    RecordScope,
    Role,
    ScalarType,
)
from opscope.columns.table import ListColumn

ORIGIN_NS = 1_700_000_000_000_000_000
"""What time 0 of a description is."""

DTYPES = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip
DEVICES = {"cpu": 0, "cuda": 1}


@dataclass(frozen=True)
class Span:
    """One event; see :func:`span` for the fields."""

    name: str
    start: float
    end: float | None
    thread: str = "main"
    parent: int | None = None
    kind: EventKind | None = None
    scope: RecordScope | None = None
    overload: str = ""
    sequence_number: int = -1
    forward_thread: int = 0
    step: int | None = None
    is_async: bool = False
    raised: bool = False
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    frame: tuple[str, int, str] | None = None
    caller: tuple[str, int, str] | None = None
    line: int | None = None
    module: str | None = None
    optimizer: str | None = None


def span(name: str, start: float, end: float | None, thread: str = "main", **options: Any) -> Span:
    """One event from ``start`` to ``end`` (None: unfinished).

    ``inputs``, ``outputs``, ``keywords`` hold :func:`tensor` rows, lists of them, or Python
    scalars; ``frame`` and ``caller`` are (file, line, function), and ``line`` is that of the call,
    the caller's own unless given; ``parent`` is a row or -1.
    """
    return Span(name, start, end, thread, **options)


def tensor(*sizes: int, dtype: str = "float32", device: str = "cpu", **columns: Any) -> Any:
    """One row of ``tensors``; strides are contiguous unless given, other columns go by name."""
    strides = columns.pop("strides", None)
    if strides is None:
        strides = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
    kind, _, index = device.partition(":")
    columns.setdefault("dtype", DTYPES[dtype])
    columns.setdefault("device_type", DEVICES[kind])
    columns.setdefault("device_index", int(index) if index else (0 if DEVICES[kind] else -1))
    return {**columns, "sizes": list(sizes), "strides": list(strides)}


def allocation(time: float, size: int, thread: str = "main", **columns: Any) -> dict[str, Any]:
    """One row of ``allocations``: a negative ``size`` is a free; ``event`` comes from nesting."""
    return {"time": time, "size_bytes": size, "thread": thread, **columns}


def kernel(name: str, start: float, end: float, **columns: Any) -> dict[str, Any]:
    """One row of ``gpu``, by default on stream 7 of cuda:0."""
    return {"name": name, "start": start, "end": end, "device_type": 1, "stream": 7, **columns}


def build_trace(
    spans: str | Iterable[Span | tuple[Any, ...]],
    *,
    allocations: Iterable[dict[str, Any]] = (),
    gpu: Iterable[dict[str, Any]] = (),
    links: Iterable[tuple[int, int]] = (),
    parameters: Iterable[dict[str, Any]] = (),
    ledger: Mapping[str, Mapping[str, float]] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:
    """The trace described; every argument is in the order of its table's rows."""
    rows = _parse(spans) if isinstance(spans, str) else [_as_span(s) for s in spans]
    if any(a.start > b.start for a, b in itertools.pairwise(rows)):
        raise ValueError("spans must be in order of start: row i is event i")
    builder = _Builder(rows)
    builder.add_events()
    builder.add_arguments()
    builder.add_python_calls()
    builder.add_allocations(list(allocations))
    for row in gpu:
        builder.add_gpu(dict(row))
    for row in parameters:
        builder.add("parameters", **{**row, "name": builder.text(row.get("name", ""))})
    for source, target in links:
        builder.add("links", source=source, target=target)
    for source, counts in (ledger or {}).items():
        for what, value in counts.items():
            builder.add("ledger", source=source, what=what, value=value)
    return builder.finish(metadata)


_LINE = re.compile(
    r"\s*(?P<name>\S.*?)\s+(?P<start>[\d.]+?)\.\.(?P<end>[\d.]+|\?)(?:\s+@(?P<thread>\S+))?\s*$"
)


def _parse(text: str) -> list[Span]:
    spans = []
    for line in filter(str.strip, text.splitlines()):
        match = _LINE.match(line)
        if match is None:
            raise ValueError(f"not 'name start..end @thread': {line!r}")
        end = None if match["end"] == "?" else float(match["end"])
        spans.append(Span(match["name"], float(match["start"]), end, match["thread"] or "main"))
    return spans


def _as_span(given: Span | tuple[Any, ...]) -> Span:
    return given if isinstance(given, Span) else Span(*given)


class _Builder:
    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.texts: dict[str, int] = {}
        self.threads: dict[str, int] = {}
        self.keys: dict[tuple[Any, ...], int] = {}
        self.last = max((s.end for s in spans if s.end is not None), default=0.0)
        for s in spans:
            self.last = max(self.last, s.start)

    def add(self, table: str, **row: Any) -> int:
        self.tables[table].append(row)
        return len(self.tables[table]) - 1

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts)) if text else -1

    def thread(self, name: str) -> int:
        if name not in self.threads:
            number = len(self.threads) + 1
            self.threads[name] = self.add(
                "threads",
                system_thread_id=1000 + number,
                torch_thread_id=number,
                name=self.text(name),
            )
        return self.threads[name]

    def end(self, s: Span) -> float:
        return self.last if s.end is None else s.end

    def add_events(self) -> None:
        for index, s in enumerate(self.spans):
            is_step = s.name.startswith("ProfilerStep#")
            kind = s.kind if s.kind is not None else EventKind.ANNOTATION if is_step else 0
            default = RecordScope.USER_SCOPE if kind == EventKind.ANNOTATION else 0
            self.add(
                "events",
                thread=self.thread(s.thread),
                parent=self._innermost(s.thread, s.start, s) if s.parent is None else s.parent,
                name=self.text(s.name),
                overload=self.text(s.overload),
                kind=kind,
                scope=default if s.scope is None else s.scope,
                start_ns=nanoseconds(s.start),
                duration_ns=nanoseconds(self.end(s)) - nanoseconds(s.start),
                sequence_number=s.sequence_number,
                forward_thread=s.forward_thread,
                step=self._step(index) if s.step is None else s.step,
                unfinished=s.end is None,
                is_async=s.is_async,
                raised=s.raised,
            )

    def _innermost(self, thread: str, time: float, below: Span | None = None) -> int:
        """The last span of ``thread`` before ``below`` that contains ``time``, or -1."""
        found = -1
        for index, s in enumerate(self.spans):
            if s is below or s.start > time:
                break
            fits = time < self.end(s) if below is None else self.end(below) <= self.end(s)
            if s.thread == thread and fits and time <= self.end(s) and not s.is_async:
                found = index
        return found

    def _step(self, index: int) -> int:
        for s in reversed(self.spans[: index + 1]):
            inside = s.start <= self.spans[index].start < self.end(s) or s is self.spans[index]
            if s.name.startswith("ProfilerStep#") and inside:
                return int(s.name.partition("#")[2])
        return -1

    def add_arguments(self) -> None:
        for event, s in enumerate(self.spans):
            for role, arguments in ((Role.INPUT, s.inputs), (Role.OUTPUT, s.outputs)):
                for position, argument in enumerate(arguments):
                    self._argument(event, argument, argument=position, role=role)
            for keyword, argument in s.keywords.items():
                named = {"argument": -1, "role": Role.KEYWORD, "keyword": self.text(keyword)}
                self._argument(event, argument, **named)

    def _argument(self, event: int, value: Any, **where: Any) -> None:
        if isinstance(value, dict):
            self.add("tensors", event=event, **where, **value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for element, row in enumerate(value):
                self.add("tensors", event=event, element=element, **where, **row)
        else:
            kind = scalar_type(value)
            text = "" if value is None else str(value)
            self.add("scalars", event=event, type=kind, value=self.text(text), **where)

    def add_python_calls(self) -> None:
        for event, s in enumerate(self.spans):
            row: dict[str, Any] = {"event": event}
            if s.frame:
                row["frame"] = self._frame(s.frame)
            if s.caller:
                row |= {"caller": self._frame(s.caller), "caller_line": s.line or s.caller[1]}
            if s.caller and s.kind in (None, EventKind.OPERATOR):
                self.add("operator_calls", **row)
                continue
            if s.module:
                row["module"] = self._instance("modules", s.module, s.module.rpartition("_")[0])
            if s.optimizer:
                row["optimizer"] = self._instance("optimizers", s.optimizer, s.optimizer)
            if len(row) > 1:
                self.add("python_calls", **row)

    def _frame(self, frame: tuple[str, int, str]) -> int:
        file, line, function = frame
        key = ("frames", *frame)
        if key not in self.keys:
            texts = {"file": self.text(file), "function": self.text(function)}
            self.keys[key] = self.add("frames", line=line, **texts)
        return self.keys[key]

    def _instance(self, table: str, name: str, class_name: str) -> int:
        key = (table, name)
        if key not in self.keys:
            row = {"address": 0x1000 + len(self.keys), "class_name": self.text(class_name)}
            if table == "modules":
                row["name"] = self.text(name)
            self.keys[key] = self.add(table, **row)
        return self.keys[key]

    def add_allocations(self, rows: list[dict[str, Any]]) -> None:
        total: dict[tuple[int, int], int] = {}
        for given in rows:
            row = dict(given)
            time, thread = row.pop("time"), row["thread"]
            row.setdefault("event", self._innermost(thread, time))
            size = row["size_bytes"]
            action = AllocationAction.FREE if size < 0 else AllocationAction.ALLOCATE
            row.setdefault("action", action)
            device = (row.get("device_type", 0), row.get("device_index", -1))
            total[device] = total.get(device, 0) + size
            row.setdefault("total_allocated_bytes", total[device])
            row |= {"thread": self.thread(thread), "time_ns": nanoseconds(time)}
            self.add("allocations", **row)

    def add_gpu(self, row: dict[str, Any]) -> None:
        start, end = row.pop("start"), row.pop("end")
        row["name"] = self.text(row["name"])
        row |= {
            "start_ns": nanoseconds(start),
            "duration_ns": nanoseconds(end) - nanoseconds(start),
        }
        self.add("gpu", **row)

    def finish(self, metadata: Mapping[str, Any] | None) -> Trace:
        tables = {name: _columns(name, rows) for name, rows in self.tables.items() if rows}
        return Trace(tables, Names.from_strings(self.texts), metadata)


def nanoseconds(time_us: float) -> int:
    """Unix nanoseconds of a description's time."""
    return ORIGIN_NS + round(time_us * 1000)


def scalar_type(value: Any) -> ScalarType:
    """What ``scalars.type`` is for a Python value."""
    if value is None:
        return ScalarType.NONE
    plain = {bool: ScalarType.BOOL, int: ScalarType.INT, float: ScalarType.FLOAT,
             complex: ScalarType.COMPLEX, str: ScalarType.STRING}  # fmt: skip
    if isinstance(value, list):
        lists = {bool: ScalarType.BOOL_LIST, int: ScalarType.INT_LIST, float: ScalarType.FLOAT_LIST}
        return lists.get(type(value[0]), ScalarType.OTHER_LIST) if value else ScalarType.INT_LIST
    return plain.get(type(value), ScalarType.OTHER)


def _columns(table: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns named by any row; rows that lack one get the schema's default."""
    schema = TABLES[table]
    columns: dict[str, Any] = {}
    for column in schema.columns:
        if not any(column.name in row for row in rows):
            continue
        if column.dtype.startswith("list"):
            columns[column.name] = list_column(row.get(column.name, []) for row in rows)
        else:
            columns[column.name] = [row.get(column.name, column.default) for row in rows]
    return columns


def list_column(rows: Iterable[Sequence[int]]) -> ListColumn:
    """A ragged column of the given rows."""
    lists = [list(row) for row in rows]
    offsets = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in lists], out=offsets[1:])
    return ListColumn(offsets, np.array([v for row in lists for v in row], dtype=np.int64))
