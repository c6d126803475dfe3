"""Reads the tensors of a module or optimizer at its first call in a recording.

The native core calls this once per instance, inside the program's own call. So nothing here may
keep a reference, run an operator, or raise anything but the program's interruptions.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from opscope.columns.codes import DEVICE_NAMES, LAYOUT_NAMES, ParameterRole
from opscope.columns.dtypes import TORCH_NAMES
from opscope.recording.facts.module_paths import meet


@lru_cache(maxsize=256)
def dtype_code(dtype: Any) -> int:
    """``c10::ScalarType`` of a ``torch.dtype``; -1 if it is newer than this table."""
    name = str(dtype).removeprefix("torch.")
    return next((code for code, known in TORCH_NAMES.items() if known == name), -1)


@lru_cache(maxsize=64)
def device_type_code(device_type: str) -> int:
    """``c10::DeviceType`` of a device's ``type``; unknown types count as PrivateUse1."""
    known = device_type if device_type in DEVICE_NAMES else "privateuseone"
    return DEVICE_NAMES.index(known)


@lru_cache(maxsize=64)
def layout_code(layout: Any) -> int:
    """``c10::Layout`` of a ``torch.layout``."""
    name = str(layout).removeprefix("torch.")
    return LAYOUT_NAMES.index(name) if name in LAYOUT_NAMES else -1


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler of the program raised ``error``.

    opscope must not swallow such an error, for example of a time limit.
    """
    if not isinstance(error, Exception):
        return True  # Ctrl+C or an exit
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # of a partial function
    of_class = getattr(type(handler), "__call__", None)  # noqa: B004 (its code is what is wanted)
    for function in (handler, of_class):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


class Row(NamedTuple):
    """One tensor, in the order that ``native/python/python_parameters.cpp`` reads."""

    name: str
    role: int
    parameter: int
    implementation: int
    storage_implementation: int
    storage: int
    storage_offset: int
    version: int
    dtype: int
    device_type: int
    device_index: int
    layout: int
    requires_grad: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


_NO_VERSION = (1 << 64) - 1


def read_parameters(owner: Any) -> list[Row]:
    """Parameters of ``owner`` with their gradients and, for an optimizer, its state.

    Empty if reading raises; errors from the program's signal handlers are raised.
    """
    try:
        return list(_rows_of(owner))
    except RecursionError:
        raise  # the core tries again later
    except Exception as error:
        if raised_by_handler(error):
            raise
        return []


def _rows_of(owner: Any) -> Iterator[Row]:
    import torch

    if isinstance(owner, torch.nn.Module):
        meet(owner)
        yield from _module_rows(owner)
    elif isinstance(owner, torch.optim.Optimizer):
        yield from _optimizer_rows(owner)


def _module_rows(module: Any) -> Iterator[Row]:
    parameters = vars(module).get("_parameters") or {}
    for number, (name, parameter) in enumerate(parameters.items()):
        yield from _rows(name, ParameterRole.PARAMETER, number, parameter)
        yield from _rows(name, ParameterRole.GRADIENT, number, _grad_of(parameter))


def _optimizer_rows(optimizer: Any) -> Iterator[Row]:
    parameters = [p for group in optimizer.param_groups for p in group.get("params", ())]
    for number, parameter in enumerate(parameters):
        yield from _rows("", ParameterRole.PARAMETER, number, parameter)
        yield from _rows("", ParameterRole.GRADIENT, number, _grad_of(parameter))
        state = optimizer.state.get(parameter) or {}
        for name, value in state.items():
            yield from _rows(str(name), ParameterRole.OPTIMIZER_STATE, number, value)


def _grad_of(parameter: Any) -> Any:
    # Leaves only: .grad of other tensors warns.
    return parameter.grad if parameter is not None and parameter.is_leaf else None


def _rows(name: str, role: int, number: int, tensor: Any) -> Iterator[Row]:
    import torch

    if not isinstance(tensor, torch.Tensor):
        return
    try:
        with torch._C.DisableTorchFunctionSubclass():
            yield Row(name, role, number, *_describe(tensor))
    except RecursionError:
        raise
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if raised_by_handler(error):
            raise
        return  # a tensor without storage or with symbolic sizes


def _describe(tensor: Any) -> tuple[Any, ...]:
    import torch

    strided = tensor.layout == torch.strided
    storage = tensor.untyped_storage() if strided else None
    index = tensor.device.index
    return (
        tensor._cdata,
        storage._cdata if storage is not None else 0,
        storage.data_ptr() if storage is not None else 0,
        tensor.storage_offset() if strided else 0,
        _NO_VERSION if tensor.is_inference() else tensor._version,
        dtype_code(tensor.dtype),
        device_type_code(tensor.device.type),
        -1 if index is None else index,
        layout_code(tensor.layout),
        int(tensor.requires_grad),
        tuple(tensor.size()),
        tuple(tensor.stride()) if strided else (),
    )
