"""New tensors and values for an operator, like the arguments of a recorded call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opscope.base.memory_limit import memory_left
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.labels import DEVICES
from opscope.columns.schema import Role, ScalarType
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.arguments import Argument, Arguments, RowsOfEvent, Scalar, TensorRecord

STRIDED = "strided"
_UNCHECKED_BYTES = 64 << 20
"""Smaller tensors are made without checking for free memory."""


class RefusedError(Exception):
    """The call cannot be repeated; the text is the reason."""


class FreshArguments:
    """Makes arguments of recorded calls: floating-point tensors are random, others zero.

    Zeros are valid where integers are indices, and durations seldom depend on values.
    """

    def __init__(self, trace: TraceData, device: str | None = None) -> None:
        """``device`` replaces every recorded device."""
        self._recorded = Arguments(trace)
        self._tensors = RowsOfEvent(trace.table("tensors"))
        self._device = device
        self._torch_version = trace.metadata.get("torch_version")

    def of(self, event: int, schema: Any) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for an operator with ``schema`` (torch's object)."""
        self._check(event)
        inputs = self._recorded.inputs(event)
        if len(inputs) > len(schema.arguments):
            if not self._is_of_this_torch():
                raise RefusedError("this torch's operator takes fewer arguments")
            # A boxed call records its whole stack; the arguments are at the top.
            inputs = inputs[len(inputs) - len(schema.arguments) :]
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for recorded, parameter in zip(inputs, schema.arguments, strict=False):
            value = self._value(recorded)
            if parameter.kwarg_only:
                keywords[parameter.name] = value
            else:
                positional.append(value)
        return positional, keywords

    def shapes(self, event: int) -> list[Any]:
        """Shapes of the arguments, ``[]`` for other values."""
        return [_shape(argument) for argument in self._recorded.inputs(event)]

    def _is_of_this_torch(self) -> bool:
        import torch

        return bool(self._torch_version == torch.__version__)

    def _check(self, event: int) -> None:
        table = self._tensors.table
        needed_bytes = 0
        for row in self._tensors.rows(event).tolist():
            role = table["role"][row]
            if role == Role.INPUT_PART:
                raise RefusedError("it takes a tuple or a list of lists with tensors in it")
            if role == Role.INPUT and table["unsized_dtype"][row] >= 0:
                raise RefusedError("it takes a tensor without plain sizes (nested or symbolic)")
            if role == Role.INPUT:
                sizes, strides = table.lists("sizes")[row], table.lists("strides")[row]
                needed_bytes += _extent(sizes, strides) * _item_bytes(int(table["dtype"][row]))
        free_bytes = memory_left() if needed_bytes > _UNCHECKED_BYTES else None
        if free_bytes is not None and needed_bytes > free_bytes:
            raise RefusedError("its tensors do not fit into free memory")

    def _value(self, recorded: Argument | None) -> Any:
        if recorded is None:
            raise RefusedError("not all of its arguments were recorded")
        if isinstance(recorded, TensorRecord):
            return self._tensor(recorded)
        if isinstance(recorded, list):
            return [self._tensor(record) for record in recorded]
        return self._scalar(recorded)

    def _scalar(self, scalar: Scalar) -> Any:
        kind, value = scalar.type, scalar.value
        if kind == ScalarType.OTHER:
            raise RefusedError("it takes an object that cannot be recreated")
        if kind == ScalarType.OTHER_LIST:
            raise RefusedError("it takes a list of texts or of mixed kinds")
        if kind == ScalarType.DEVICE:
            return self._device or value
        if isinstance(value, list) and any(isinstance(item, str) for item in value):
            raise RefusedError("it takes a list that was recorded incompletely")
        if isinstance(value, str) and kind != ScalarType.STRING:
            return _complex(value)
        return value

    def _tensor(self, record: TensorRecord) -> Any:
        import torch

        if not record.dtype:
            return None
        if record.layout != STRIDED:
            raise RefusedError(f"it takes a tensor with layout {record.layout or 'unknown'}")
        dtype = getattr(torch, record.dtype, None)
        if dtype is None:
            raise RefusedError(f"this torch has no {record.dtype}")
        device = self._device or _device_name(record)
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise RefusedError(f"it ran on {device}, which this machine lacks; choose a --device")
        sizes, strides = record.sizes, record.strides
        if len(strides) != len(sizes):
            strides = _contiguous(sizes)
        if not _overlaps(sizes, strides):
            return _filled(torch.empty_strided(sizes, strides, dtype=dtype, device=device))
        storage = torch.empty(_extent(sizes, strides), dtype=dtype, device=device)
        return _filled(storage).as_strided(sizes, strides)


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Number of storage elements between the tensor's first and last, gaps included."""
    if 0 in sizes:
        return 0
    if len(strides) != len(sizes):
        return math.prod(sizes)
    return 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))


def _item_bytes(dtype: int) -> int:
    import torch

    return int(getattr(getattr(torch, TORCH_NAMES.get(dtype, ""), None), "itemsize", 1))


def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements may share memory, as in an expanded tensor."""
    reach = 0  # extent of dimensions with smaller strides
    for step, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and step <= reach:
            return True
        reach += (size - 1) * step
    return False


def _filled(storage: Any) -> Any:
    try:
        return storage.uniform_() if storage.is_floating_point() else storage.zero_()
    except (RuntimeError, NotImplementedError):  # no random numbers of this type
        return storage.zero_()


def _contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _device_name(record: TensorRecord) -> str:
    name = DEVICES.get(record.device_type, "cpu")
    return name if record.device_index < 0 else f"{name}:{record.device_index}"


def _complex(text: str) -> complex:
    """Parse ``(1.,2.)``, torch's text of a complex number."""
    real, _, imaginary = text.strip("()").partition(",")
    try:
        return complex(float(real), float(imaginary))
    except ValueError:
        raise RefusedError(f"it takes a number that cannot be read: {text}") from None


def _shape(argument: Argument | None) -> list[Any]:
    if isinstance(argument, TensorRecord):
        return list(argument.sizes)
    if isinstance(argument, list):
        return [list(record.sizes) for record in argument]
    return []
