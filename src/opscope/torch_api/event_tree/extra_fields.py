"""Extra fields of torch's event tree: the ``_ExtraFields_*`` of ``torch._C._profiler``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
