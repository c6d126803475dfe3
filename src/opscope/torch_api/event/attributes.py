"""Attributes of a ``FunctionEvent``, read from a trace.

A list position has an event, a memory event outside all spans, or device activity. Each kind has
its own readers for some attributes and shares the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscope.analysis.torch_listing.rows import (
    RowSource,
    concrete_values,
    keyword_values,
    plain_shapes,
    structured_shapes,
    structured_strides,
    type_names,
)
from opscope.columns.codes import GPU_CATEGORIES
from opscope.columns.schema import EventKind
from opscope.timeline.listing import ANNOTATION, COPY, KERNEL, SET
from opscope.timeline.tree.frame_text import PYTHON_KINDS
from opscope.torch_api.event.listed_trace import ListedTrace
from opscope.torch_api.event.parts import EventMetadata, Interval, device_type

Reader = Callable[[ListedTrace, int], Any]

_FORWARD_BACKWARD_FLOW = 1


def _time_range(table: str, time: str) -> Reader:
    def read(source: ListedTrace, row: int) -> Interval:
        start = int(source.trace.table(table)[time][row]) - source.origin_ns
        if table == "events":
            duration = int(source.listing.duration_ns[row])
        else:
            duration = int(source.trace.table("gpu")["duration_ns"][row]) if table == "gpu" else 0
        return Interval(start / 1000, (start + duration) / 1000)

    return read


def _column(table: str, column: str, convert: Callable[[Any], Any] = int) -> Reader:
    return lambda source, row: convert(source.trace.table(table)[column][row])


def _constant(value: Any) -> Reader:
    return lambda source, row: value


def _inputs(form: Callable[[Any], Any]) -> Reader:
    return lambda source, row: form(source.arguments.inputs(row))


def _concrete_inputs(source: ListedTrace, row: int) -> list[Any]:
    values = concrete_values(source.arguments.inputs(row))
    if "concrete_inputs" in source.trace.metadata.get("left_out", ()):
        return [None if isinstance(value, list) else value for value in values]
    return values


def _kind(source: ListedTrace, row: int) -> int:
    return int(source.trace.events["kind"][row])


def _stack(source: ListedTrace, row: int) -> list[str]:
    return source.stacks.of(row) if source.stacks is not None else []


def _activity(source: ListedTrace, row: int) -> str:
    kind = _kind(source, row)
    if kind in PYTHON_KINDS:
        return "python_function"
    return "user_annotation" if kind == EventKind.ANNOTATION else "cpu_op"


def _system_thread(table: str) -> Reader:
    def read(source: ListedTrace, row: int) -> int:
        thread, threads = source.trace.table(table)["thread"][row], source.trace.table("threads")
        return int(threads["system_thread_id"][thread]) if thread < len(threads) else int(thread)

    return read


def _forward_thread(source: ListedTrace, row: int) -> int:
    """Thread of the forward operator; 0 without one (accumulated gradients), like torch."""
    events = source.trace.events
    return int(events["forward_thread"][row]) if events["sequence_number"][row] >= 0 else 0


def _memory_thread(source: ListedTrace, row: int) -> int:
    thread = source.trace.table("allocations")["thread"][row]
    threads = source.trace.table("threads")
    return int(threads["torch_thread_id"][thread]) if thread < len(threads) else int(thread)


def _flops(source: ListedTrace, row: int) -> int:
    return int(source.flops.flops[row]) if source.flops is not None else 0


def _event_index(source: ListedTrace, row: int) -> str:
    """Metadata that torch adds to operators if ``expose_kineto_event_metadata`` is on."""
    exposed = source.exposes_metadata and _kind(source, row) <= EventKind.ANNOTATION
    return f'"Ev Idx": {row}' if exposed else ""


def _metadata(source: ListedTrace, row: int) -> dict[str, Any] | None:
    return {"Ev Idx": row} if _event_index(source, row) else None


def _python_parent(source: ListedTrace, row: int) -> int:
    if source.python_numbers[row] < 0 or source.stacks is None:
        return -1
    caller = int(source.stacks.caller[row])
    return int(source.python_numbers[caller]) if caller >= 0 else -1


def _module_number(source: ListedTrace, row: int) -> int:
    module = source.module_rows.get(row)
    if module is None:
        return -1
    name = source.trace.names[source.trace.table("modules")["name"][module]]
    number = name.rpartition("_")[2]
    return int(number) if number.isdecimal() else -1


def _gpu_metadata(source: ListedTrace, row: int) -> EventMetadata:
    gpu = source.trace.table("gpu")
    kind = int(gpu["kind"][row])
    return EventMetadata(
        grid=gpu.lists("grid")[row] if kind == KERNEL else None,
        block=gpu.lists("block")[row] if kind == KERNEL else None,
        stream=int(gpu["stream"][row]),
        context=int(gpu["context"][row]),
        bytes=int(gpu["size_bytes"][row]) if kind in (COPY, SET) else None,
    )


_EVENT: dict[str, Reader] = {
    "id": lambda source, row: row + 1,
    "external_id": lambda source, row: row + 1,
    "trace_name": lambda source, row: source.listing.texts[int(source.listing.label[row])],
    "overload_name": lambda source, row: source.trace.names[source.trace.events["overload"][row]],
    "time_range": _time_range("events", "start_ns"),
    "thread": lambda source, row: int(source.thread_numbers[row]),
    "fwd_thread": _forward_thread,
    "kernels": lambda source, row: source.kernels(row),
    "cpu_children": lambda source, row: source.children(row),
    "cpu_parent": lambda source, row: source.parent_of(row),
    "input_shapes": _inputs(plain_shapes),
    "concrete_inputs": _concrete_inputs,
    "kwinputs": lambda source, row: keyword_values(source.arguments.keywords(row)),
    "stack": _stack,
    "scope": _column("events", "scope"),
    "is_async": lambda source, row: bool(source.listing.is_async[row]),
    "sequence_nr": _column("events", "sequence_number"),
    "device_index": lambda source, row: source.process_id,
    "device_resource_id": _system_thread("events"),
    "flops": _flops,
    "is_user_annotation": lambda source, row: _kind(source, row) == EventKind.ANNOTATION,
    "is_python_function": lambda source, row: _kind(source, row) in PYTHON_KINDS,
    "activity_type": _activity,
    "_metadata_json": _event_index,
    "metadata": _metadata,
    "flow_id": lambda source, row: source.flows.get(row, (0, False))[0],
    "flow_type": lambda source, row: _FORWARD_BACKWARD_FLOW if row in source.flows else 0,
    "flow_start": lambda source, row: source.flows.get(row, (0, False))[1],
    "structured_input_shapes": _inputs(structured_shapes),
    "structured_input_strides": _inputs(structured_strides),
    "input_dtypes": _inputs(type_names),
    "python_id": lambda source, row: int(source.python_numbers[row]),
    "python_parent_id": _python_parent,
    "python_module_id": _module_number,
}

_MEMORY: dict[str, Reader] = {
    "id": lambda source, row: len(source.trace.events) + row + 1,
    "time_range": _time_range("allocations", "time_ns"),
    "thread": _memory_thread,
    "fwd_thread": _memory_thread,
    "device_resource_id": _memory_thread,
}

_GPU: dict[str, Reader] = {
    "id": _column("gpu", "correlation_id"),
    "trace_name": lambda source, row: source.trace.names[source.trace.table("gpu")["name"][row]],
    "time_range": _time_range("gpu", "start_ns"),
    "thread": _column("gpu", "stream"),
    "device_type": _column("gpu", "device_type", lambda code: device_type(int(code))),
    "device_index": _column("gpu", "device_index"),
    "device_resource_id": _column("gpu", "stream"),
    "activity_type": _column("gpu", "kind", lambda kind: GPU_CATEGORIES[int(kind)]),
    "is_user_annotation": _column("gpu", "kind", lambda kind: kind == ANNOTATION),
    "linked_correlation_id": lambda source, row: int(source.trace.table("gpu")["launch"][row]) + 1,
    "event_metadata": _gpu_metadata,
}

_SHARED: dict[str, Reader] = {
    "node_id": _constant(-1),
    "overload_name": _constant(""),
    "trace_name": _constant(None),
    "fwd_thread": _constant(None),
    "kernels": lambda source, row: [],
    "count": _constant(1),
    "cpu_children": lambda source, row: [],
    "cpu_parent": _constant(None),
    "input_shapes": lambda source, row: [],
    "stack": lambda source, row: [],
    "scope": _constant(0),
    "use_device": lambda source, row: source.use_device,
    "is_async": _constant(False),
    "is_remote": _constant(False),
    "sequence_nr": _constant(-1),
    "device_type": lambda source, row: device_type(0),
    "device_index": _constant(0),
    "is_legacy": _constant(False),
    "flops": _constant(0),
    "is_user_annotation": _constant(False),
    "is_python_function": _constant(False),
    "activity_type": _constant(None),
    "self_cpu_percent": _constant(-1),
    "total_cpu_percent": _constant(-1),
    "total_device_percent": _constant(-1),
    "external_id": _constant(0),
    "linked_correlation_id": _constant(0),
    "event_metadata": _constant(None),
    "metadata": _constant(None),
    "python_id": _constant(-1),
    "python_parent_id": _constant(-1),
    "python_module_id": _constant(-1),
}
for _name in ("concrete_inputs", "kwinputs", "_metadata_json", "flow_id", "flow_type"):
    _SHARED[_name] = _constant(None)
for _name in ("flow_start", "structured_input_shapes", "structured_input_strides", "input_dtypes"):
    _SHARED[_name] = _constant(None)

_BY_SOURCE = {RowSource.EVENT: _EVENT, RowSource.ALLOCATION: _MEMORY, RowSource.GPU: _GPU}


def _by_source(name: str) -> Reader:
    readers = [_BY_SOURCE[kind].get(name, _SHARED.get(name)) for kind in RowSource]

    def read(source: ListedTrace, position: int) -> Any:
        reader = readers[int(source.rows.source[position])]
        assert reader is not None, f"every kind of row has a {name}"
        return reader(source, int(source.rows.row[position]))

    return read


def _quantity(name: str) -> Reader:
    def read(source: ListedTrace, position: int) -> int:
        values = source.rows.quantities.get(name)
        return 0 if values is None else int(values[position])

    return read


READERS: dict[str, Reader] = {
    name: _by_source(name) for name in dict.fromkeys([*_EVENT, *_MEMORY, *_GPU, *_SHARED])
}
"""Functions from source and list position to the value, by attribute."""
READERS["name"] = lambda source, position: source.rows.texts[int(source.rows.label[position])]
READERS["cpu_memory_usage"] = _quantity("cpu_memory_bytes")
READERS["device_memory_usage"] = _quantity("device_memory_bytes")
"""By attribute: a function from source and list position to the value."""
