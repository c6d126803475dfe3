"""The event tree with torch's classes; nodes are created on access."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from opscope.analysis.memory.categories import takes_optional_tensors
from opscope.base.cached_property import cached_property
from opscope.columns.codes import DEVICE_NAMES, LAYOUT_NAMES
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.location import Location
from opscope.columns.schema import ScalarType
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.recording.facts.python_source import path_prefixes
from opscope.timeline.tree.arguments import Argument, Scalar, TensorRecord
from opscope.timeline.tree.node import (
    MemoryDetail,
    Node,
    NodeKind,
    OperatorDetail,
    PythonDetail,
    Tree,
)
from opscope.torch_api.event_tree.profiler_event import (
    DeviceEvents,
    ExtraFieldsAllocation,
    ExtraFieldsKineto,
    ExtraFieldsOutOfMemory,
    ExtraFieldsPyCall,
    ExtraFieldsPyCCall,
    ExtraFieldsTorchOp,
    NNModuleInfo,
    OptimizerInfo,
    ProfilerEvent,
    PyFrameState,
    TensorMetadata,
)

PARAMETER, GRADIENT, STATE = 0, 1, 2
_OUT_OF_MEMORY = 4  # torch::profiler::impl::EventType::OutOfMemory
_PYTHON = (NodeKind.PYTHON_CALL, NodeKind.MODULE_CALL, NodeKind.OPTIMIZER_CALL)


class _RecordedEvent(ProfilerEvent):
    def __init__(self, tree: ProfilerTree, node: Node) -> None:
        is_torch = node.kind in (NodeKind.OPERATOR, NodeKind.ANNOTATION)
        super().__init__(
            node.name,
            node.row + 1,
            tree.first_id + node.row if is_torch else 0,
            node.start_ns,
            node.duration_ns,
            node.system_thread_id,
        )
        self._tree, self._node = tree, node

    @property
    def overload_name(self) -> str:
        detail = self._node.detail
        return detail.overload if isinstance(detail, OperatorDetail) else ""

    @property
    def parent(self) -> ProfilerEvent | None:
        parent = self._node.parent
        return None if parent is None else self._tree.event(parent)

    @property
    def children(self) -> list[ProfilerEvent]:
        inside = [self._tree.event(child) for child in self._node.children]
        return _by_start(inside, self._tree.devices.launched_by(self._node.row))

    @cached_property
    def typed(self) -> tuple[Any, Any]:
        from torch._C._profiler import _EventType

        kind, detail = self._node.kind, self._node.detail
        if isinstance(detail, OperatorDetail):
            return _EventType.TorchOp, self._tree.operator_fields(self.name, detail)
        if isinstance(detail, MemoryDetail):
            if kind is NodeKind.OUT_OF_MEMORY:
                # torch's enumeration has this value without a name in Python.
                return _EventType(_OUT_OF_MEMORY), ExtraFieldsOutOfMemory()
            return _EventType.Allocation, self._tree.allocation_fields(detail)
        if isinstance(detail, PythonDetail) and kind in _PYTHON:
            return _EventType.PyCall, self._tree.call_fields(detail)
        if isinstance(detail, PythonDetail) and kind is NodeKind.C_CALL:
            return _EventType.PyCCall, ExtraFieldsPyCCall(self._tree.place(detail.caller))
        return _EventType.Kineto, ExtraFieldsKineto()


class ProfilerTree:
    """The tree of a trace with torch's classes."""

    def __init__(self, trace: TraceData, first_id: int = 1) -> None:
        self.first_id = first_id
        self._trace = trace
        self._tree = Tree(trace)
        self.devices = DeviceEvents(trace, len(self._tree) + 1, self._event_of_row)
        self._events: dict[int, _RecordedEvent] = {}
        self._modules: dict[int, NNModuleInfo] = {}
        self._optimizers: dict[int, OptimizerInfo] = {}
        self._prefixes = path_prefixes()
        self._shown_files: dict[str, str] = {}

    @property
    def roots(self) -> list[ProfilerEvent]:
        """Events at top level, in order of start, and device work without a recorded launch."""
        top = [self.event(node) for node in self._tree.roots]
        return _by_start(top, self.devices.launched_by(-1))

    def _event_of_row(self, row: int) -> _RecordedEvent:
        return self.event(self._tree.node(row))

    def event(self, node: Node) -> _RecordedEvent:
        """The object of a node; always the same one."""
        event = self._events.get(node.row)
        if event is None:
            event = self._events[node.row] = _RecordedEvent(self, node)
        return event

    def operator_fields(self, name: str, detail: OperatorDetail) -> ExtraFieldsTorchOp:
        """Extra fields of an operator or annotation."""
        from torch._C._profiler import RecordScope

        return ExtraFieldsTorchOp(
            name=name,
            inputs=_inputs(name, detail.inputs),
            scope=getattr(RecordScope, detail.scope.name),
            sequence_number=detail.sequence_number,
            allow_tf32_cublas=False,
        )

    def allocation_fields(self, detail: MemoryDetail) -> ExtraFieldsAllocation:
        """Extra fields of an allocation or free."""
        return ExtraFieldsAllocation(
            ptr=detail.address,
            alloc_size=detail.size_bytes,
            total_allocated=detail.total_allocated_bytes,
            total_reserved=detail.total_reserved_bytes,
            device=torch_device(detail.device_type, detail.device_index),
            id=_none_if_negative(detail.tensor_id),
            allocation_id=_none_if_negative(detail.allocation_id),
        )

    def call_fields(self, detail: PythonDetail) -> ExtraFieldsPyCall:
        """Extra fields of a Python call."""
        return ExtraFieldsPyCall(
            callsite=self.place(detail.frame),
            caller=self.place(detail.caller),
            module=self._module(detail) if detail.module >= 0 else None,
            optimizer=self._optimizer(detail) if detail.optimizer >= 0 else None,
        )

    def place(self, frame: Location | None) -> PyFrameState:
        """Location of a function; the file is written as in event names."""
        if frame is None:
            return PyFrameState("", 0, "")
        file = self._shown_files.get(frame.file)
        if file is None:
            folder = next((p for p in self._prefixes if frame.file.startswith(p)), "")
            file = self._shown_files[frame.file] = frame.file.removeprefix(folder)
        return PyFrameState(file, frame.line, frame.function)

    def _module(self, detail: PythonDetail) -> NNModuleInfo:
        info = self._modules.get(detail.module)
        if info is None:
            held = _held_tensors(self._trace, "module", detail.module)
            info = self._modules[detail.module] = NNModuleInfo(
                self_ptr=detail.address,
                cls_ptr=int(self._trace.table("modules")["class_address"][detail.module]),
                cls_name=detail.class_name,
                parameters=[
                    (name, tensors[PARAMETER], tensors.get(GRADIENT)) for name, tensors, _ in held
                ],
            )
        return info

    def _optimizer(self, detail: PythonDetail) -> OptimizerInfo:
        info = self._optimizers.get(detail.optimizer)
        if info is None:
            held = _held_tensors(self._trace, "optimizer", detail.optimizer)
            info = self._optimizers[detail.optimizer] = OptimizerInfo(
                self_ptr=detail.address,
                parameters=[
                    (tensors[PARAMETER], tensors.get(GRADIENT), state) for _, tensors, state in held
                ],
            )
        return info


def _by_start(events: Sequence[ProfilerEvent], work: list[ProfilerEvent]) -> list[ProfilerEvent]:
    """Both lists, each in order of start, merged in that order."""
    if not work:
        return [*events]
    return sorted([*events, *work], key=lambda event: event.start_time_ns)


Held = tuple[str, dict[int, TensorMetadata], list[tuple[str, TensorMetadata]]]


def _held_tensors(trace: TraceData, column: str, owner: int) -> list[Held]:
    """Per parameter of an owner: name, parameter and gradient by role, and state."""
    table = trace.table("parameters")
    held: dict[int, Held] = {}
    for row in np.flatnonzero(table[column] == owner):
        name = trace.names[table["name"][row]]
        entry = held.setdefault(int(table["parameter"][row]), (name, {}, []))
        role, tensor = int(table["role"][row]), _metadata_of_row(table, int(row))
        if role == STATE:
            entry[2].append((name, tensor))
        else:
            entry[1][role] = tensor
    return [entry for entry in held.values() if PARAMETER in entry[1]]


def _metadata_of_row(table: Table, row: int) -> TensorMetadata:
    import torch

    return TensorMetadata(
        impl_ptr=int(table["impl"][row]),
        storage_data_ptr=int(table["storage"][row]),
        id=_none_if_negative(int(table["tensor_id"][row])),
        allocation_id=_none_if_negative(int(table["allocation_id"][row])),
        sizes=table.lists("sizes")[row],
        strides=table.lists("strides")[row],
        dtype=getattr(torch, TORCH_NAMES.get(int(table["dtype"][row]), ""), None),
        layout=getattr(torch, LAYOUT_NAMES[int(table["layout"][row])]),
        device=torch_device(int(table["device_type"][row]), int(table["device_index"][row])),
    )


# torch stores values of these types, and None for other arguments that are not tensors.
_WITH_VALUE = (ScalarType.BOOL, ScalarType.INT, ScalarType.FLOAT, ScalarType.COMPLEX)


def _inputs(name: str, arguments: list[Argument | None]) -> list[Any]:
    values: list[Any] = []
    for position, argument in enumerate(arguments):
        if isinstance(argument, TensorRecord):
            values.append(_metadata(argument))
        elif isinstance(argument, list) and not takes_optional_tensors(name, position):
            tensors = [_metadata(tensor) for tensor in argument]
            values.append(None if None in tensors else tensors)
        elif isinstance(argument, Scalar) and argument.type is ScalarType.TENSOR_LIST:
            values.append([])
        elif isinstance(argument, Scalar) and argument.type in _WITH_VALUE:
            values.append(argument.value)
        else:
            values.append(None)
    return values


def _metadata(record: TensorRecord) -> TensorMetadata | None:
    import torch

    if record.impl == 0 or not record.dtype:  # undefined, nested, or with a symbolic shape
        return None
    return TensorMetadata(
        impl_ptr=record.impl,
        storage_data_ptr=record.storage,
        id=_none_if_negative(record.tensor_id),
        allocation_id=_none_if_negative(record.allocation_id),
        sizes=list(record.sizes),
        strides=list(record.strides),
        dtype=getattr(torch, record.dtype, None),
        layout=getattr(torch, record.layout, None),
        device=torch_device(record.device_type, record.device_index),
    )


@cache
def torch_device(device_type: int, index: int) -> Any:
    """torch's object for a device; an index below 0 is no index."""
    import torch

    name = DEVICE_NAMES[device_type]
    return torch.device(name) if index < 0 else torch.device(name, index)


def _none_if_negative(number: int) -> int | None:
    return number if number >= 0 else None
