"""torch.profiler's own recording as a :class:`Trace`, so that both sides read the same data."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import AllocationAction, EventKind, ScalarType
from support.build_trace import list_column, scalar_type

_NOT_TENSORS = ("Scalar", "ScalarList", "TensorList", "")


def trace_of(prof: Any) -> Trace:
    """The Kineto events of a finished ``torch.profiler.profile``, nested by time."""
    kineto = prof.profiler.kineto_results
    events = [e for e in kineto.events() if e.name() != "[memory]"]
    events.sort(key=lambda e: (e.start_ns(), -e.end_ns()))
    builder = _Builder()
    for event in events:
        builder.add_event(event)
    for event in kineto.events():
        if event.name() == "[memory]":
            builder.add_memory(event)
    return builder.finish(kineto.trace_start_ns())


class _Builder:
    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.threads: dict[int, int] = {}
        self.system_threads: list[int] = []
        self.open: dict[int, list[tuple[int, int]]] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("events", "tensors", "scalars", "allocations")
        }

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts)) if text else -1

    def thread(self, event: Any) -> int:
        number = event.start_thread_id() % 2**63  # -1: of threads torch does not know
        if number not in self.threads:
            self.threads[number] = len(self.threads)
            self.system_threads.append(event.device_resource_id() % 2**63)
        return self.threads[number]

    def add_event(self, event: Any) -> None:
        row, thread = len(self.rows["events"]), self.thread(event)
        stack = self.open.setdefault(thread, [])
        while stack and (stack[-1][1] < event.end_ns() or stack[-1][1] <= event.start_ns()):
            stack.pop()
        kind = EventKind.ANNOTATION if event.is_user_annotation() else EventKind.OPERATOR
        if event.is_python_function():
            kind = EventKind.PYTHON_CALL
        self.rows["events"].append(
            {
                "thread": thread,
                "parent": stack[-1][0] if stack else -1,
                "name": self.text(event.name()),
                "overload": self.text(event.overload_name()),
                "kind": kind,
                "scope": event.scope(),
                "start_ns": event.start_ns(),
                "duration_ns": event.end_ns() - event.start_ns(),
                "sequence_number": event.sequence_nr(),
                "forward_thread": event.fwd_thread_id(),
                "is_async": event.is_async(),
            }
        )
        stack.append((row, event.end_ns()))
        self.add_inputs(row, event)

    def add_inputs(self, row: int, event: Any) -> None:
        shapes, strides = event.structured_input_shapes(), event.structured_input_strides()
        for position, dtype in enumerate(event.dtypes()):
            if dtype == "TensorList":
                for element, sizes in enumerate(shapes[position]):
                    where = {"event": row, "argument": position, "element": element}
                    stride = strides[position][element]
                    self.rows["tensors"].append({**where, "sizes": sizes, "strides": stride})
            elif dtype not in _NOT_TENSORS:
                tensor = {"event": row, "argument": position, "element": -1, "dtype": CODES[dtype]}
                tensor |= {"sizes": shapes[position], "strides": strides[position]}
                self.rows["tensors"].append(tensor)
            else:
                value = event.concrete_inputs()[position] if dtype else None
                kind = scalar_type(value) if dtype else ScalarType.OTHER
                text = "" if value is None else str(value)
                scalar = {"event": row, "argument": position, "type": kind}
                self.rows["scalars"].append({**scalar, "value": self.text(text)})

    def add_memory(self, event: Any) -> None:
        thread, time = self.thread(event), event.start_ns()
        inside = [
            row
            for row, span in enumerate(self.rows["events"])
            if span["thread"] == thread
            and span["start_ns"] <= time <= span["start_ns"] + span["duration_ns"]
        ]
        size = event.nbytes()
        self.rows["allocations"].append(
            {
                "event": inside[-1] if inside else -1,
                "thread": thread,
                "action": AllocationAction.FREE if size < 0 else AllocationAction.ALLOCATE,
                "time_ns": time,
                "size_bytes": size,
            }
        )

    def finish(self, start_ns: int) -> Trace:
        tables: dict[str, Any] = {}
        for table, rows in self.rows.items():
            columns = rows[0].keys() if rows else ()
            tables[table] = {
                name: list_column(r.get(name, []) for r in rows)
                if name in ("sizes", "strides")
                else np.array([r.get(name, -1) for r in rows])
                for name in columns
            }
        tables["threads"] = {
            "torch_thread_id": list(self.threads),
            "system_thread_id": self.system_threads,
        }
        return Trace(tables, Names.from_strings(self.texts), {"start_ns": start_ns})


CODES = {"float": 6, "double": 7, "long int": 4, "int": 3, "bool": 11}
