"""``_ProfilerEvent``: nodes of the event tree, and their ``_ExtraFields_*``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.codes import GpuKind
from opscope.columns.trace_data import TraceData


@dataclass(frozen=True)
class PyFrameState:
    """``_PyFrameState``: a location in Python source, without the folder it is imported from."""

    file_name: str
    line_number: int
    function_name: str


@dataclass(frozen=True)
class TensorMetadata:
    """``_TensorMetadata``: a tensor at the start of an event."""

    impl_ptr: int | None  # address of the TensorImpl; None if undefined
    storage_data_ptr: int | None  # address of the storage's first byte; None without storage
    id: int | None  # the same across views, ``set_`` and ``resize_``; None if unknown
    allocation_id: int | None  # the allocation of its storage; None if unknown
    sizes: list[int]  # shape
    strides: list[int]  # in elements; empty unless strided
    dtype: Any  # ``torch.dtype``
    layout: Any  # ``torch.layout``
    device: Any  # ``torch.device``

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)


@dataclass(frozen=True)
class NNModuleInfo:
    """``_NNModuleInfo``: an nn.Module instance."""

    self_ptr: int  # ``id()`` of the instance
    cls_ptr: int  # ``id()`` of its class
    cls_name: str  # name of its class
    parameters: list[tuple[str, TensorMetadata, TensorMetadata | None]]  # at the first call


@dataclass(frozen=True)
class OptimizerInfo:
    """``_OptimizerInfo``: an optimizer instance."""

    self_ptr: int  # ``id()`` of the instance
    # (parameter, gradient or None, [(state name, state tensor)]), at the first step
    parameters: list[tuple[TensorMetadata, TensorMetadata | None, list[tuple[str, TensorMetadata]]]]


@dataclass(frozen=True)
class ExtraFieldsTorchOp:
    """``_ExtraFields_TorchOp``: an operator or annotation."""

    name: str
    inputs: list[Any]
    scope: Any
    sequence_number: int
    allow_tf32_cublas: bool


@dataclass(frozen=True)
class ExtraFieldsAllocation:
    """``_ExtraFields_Allocation``: an allocation, or a free with negative size. Bytes."""

    ptr: int
    alloc_size: int
    total_allocated: int
    total_reserved: int
    device: Any
    id: int | None
    allocation_id: int | None


@dataclass(frozen=True)
class ExtraFieldsOutOfMemory:
    """``_ExtraFields_OutOfMemory``: an allocation that failed."""


@dataclass(frozen=True)
class ExtraFieldsPyCall:
    """``_ExtraFields_PyCall``: a Python function, nn.Module call or optimizer step."""

    callsite: PyFrameState
    caller: PyFrameState
    module: NNModuleInfo | None
    optimizer: OptimizerInfo | None


@dataclass(frozen=True)
class ExtraFieldsPyCCall:
    """``_ExtraFields_PyCCall``: a C function called from Python."""

    caller: PyFrameState


@dataclass(frozen=True)
class ExtraFieldsKineto:
    """``_ExtraFields_Kineto``: any other event, such as a garbage collection."""


class ProfilerEvent:
    """One node; a tree returns the same object every time, like torch's.

    Attributes:
        name: as torch shows it.
        id: unique in the tree.
        correlation_id: shared by linked events of the trace; 0 for none.
        start_time_ns: Unix time.
        start_tid: system id of its thread, or number of its stream.
        parent: the event around it, or the event that launched it.
        children: events directly inside, or device work launched directly there, in order of start.
        typed: kind of event, and its extra fields.
    """

    name: str
    id: int
    correlation_id: int
    start_time_ns: int
    duration_time_ns: int
    start_tid: int
    parent: Any
    children: Any
    typed: Any

    def __init__(
        self,
        name: str,
        id: int,
        correlation_id: int,
        start_time_ns: int,
        duration_time_ns: int,
        start_tid: int,
    ) -> None:
        self.name, self.id, self.correlation_id = name, id, correlation_id
        self.start_time_ns, self.duration_time_ns = start_time_ns, duration_time_ns
        self.start_tid = start_tid

    @property
    def end_time_ns(self) -> int:
        """Unix time of the end."""
        return self.start_time_ns + self.duration_time_ns

    @property
    def overload_name(self) -> str:
        """Overload of an operator; empty for other events and if not recorded."""
        return ""

    @property
    def tag(self) -> Any:
        """``torch._C._profiler._EventType``."""
        return self.typed[0]

    @property
    def extra_fields(self) -> Any:
        """One of the ``_ExtraFields_*`` objects."""
        return self.typed[1]

    def __repr__(self) -> str:
        return f"<_ProfilerEvent {self.name!r}>"


class _DeviceEvent(ProfilerEvent):
    """A kernel, copy or memory set; torch has events from Kineto instead."""

    def __init__(self, work: DeviceEvents, row: int) -> None:
        gpu = work.gpu
        super().__init__(
            work.names[gpu["name"][row]],
            work.first_id + row,
            int(gpu["correlation_id"][row]),
            int(gpu["start_ns"][row]),
            int(gpu["duration_ns"][row]),
            int(gpu["stream"][row]),
        )
        self._work, self._launch = work, int(gpu["launch"][row])
        self.children: list[ProfilerEvent] = []

    @property
    def parent(self) -> ProfilerEvent | None:
        return self._work.event_of_row(self._launch) if self._launch >= 0 else None

    @property
    def typed(self) -> tuple[Any, Any]:
        from torch._C._profiler import _EventType

        return _EventType.Kineto, ExtraFieldsKineto()


class DeviceEvents:
    """Device work of a trace, by launching event."""

    def __init__(
        self, trace: TraceData, first_id: int, event_of_row: Callable[[int], ProfilerEvent]
    ) -> None:
        self.gpu = trace.table("gpu")
        self.names = trace.names
        self.first_id = first_id
        self.event_of_row = event_of_row
        self._events: dict[int, ProfilerEvent] = {}

    @cached_property
    def _rows_by_launch(self) -> dict[int, list[int]]:
        work = np.flatnonzero(self.gpu["kind"] <= GpuKind.SET)
        rows: dict[int, list[int]] = {}
        for row, launch in zip(work.tolist(), self.gpu["launch"][work].tolist(), strict=True):
            rows.setdefault(launch, []).append(row)
        return rows

    def launched_by(self, row: int) -> list[ProfilerEvent]:
        """Work launched by a row of ``events``, in order of start; -1: without a recorded call."""
        return [self._event(gpu_row) for gpu_row in self._rows_by_launch.get(row, ())]

    def _event(self, row: int) -> ProfilerEvent:
        return self._events.setdefault(row, _DeviceEvent(self, row))
