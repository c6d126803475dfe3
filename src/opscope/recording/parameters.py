"""Reading the tensors a module or optimizer holds, when the recorder first meets it.

Called by the native core once per instance, from inside the program's own call: nothing here may
keep a reference, run an operator, or raise anything but what interrupts the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from opscope.columns.codes import ParameterRole
from opscope.recording.bridge.torch_codes import device_type_code, dtype_code, layout_code
from opscope.recording.facts.module_paths import meet
from opscope.recording.interruptions import raised_by_handler


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
    """The parameters of ``owner`` with their gradients and, for an optimizer, its state.

    What raises has none; what interrupted the program meanwhile is raised.
    """
    try:
        return list(_rows_of(owner))
    except RecursionError:
        raise  # no room for this now: the core asks again
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
    # .grad of a tensor that is not a leaf warns; leaves are all that is wanted.
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
        return  # a tensor without storage or with symbolic sizes: nothing to point at


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
