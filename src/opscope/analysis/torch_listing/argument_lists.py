"""Arguments of one event in torch.profiler's forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opscope.columns.dtypes import CPP_NAMES, TORCH_NAMES
from opscope.columns.schema import ScalarType
from opscope.timeline.tree.arguments import Argument, Scalar, TensorRecord

Inputs = Sequence[Argument | None]

_CODES = {name: code for code, name in TORCH_NAMES.items()}
_NUMBERS = {ScalarType.BOOL, ScalarType.INT, ScalarType.FLOAT, ScalarType.COMPLEX}
_NUMBER_LISTS = {ScalarType.BOOL_LIST, ScalarType.INT_LIST, ScalarType.FLOAT_LIST}


def plain_shapes(inputs: Inputs) -> list[list[int]]:
    """Shape of every tensor; ``[]`` for anything else, including lists of tensors."""
    return [list(a.sizes) if isinstance(a, TensorRecord) else [] for a in inputs]


def structured_shapes(inputs: Inputs) -> list[Any]:
    """:func:`plain_shapes`, but with a list of shapes for a list of tensors."""
    return [_each(a, lambda tensor: list(tensor.sizes)) for a in inputs]


def structured_strides(inputs: Inputs) -> list[Any]:
    """Strides in the form of :func:`structured_shapes`."""
    return [_each(a, lambda tensor: list(tensor.strides)) for a in inputs]


def type_names(inputs: Inputs) -> list[str]:
    """``float``, ``long int``, ``TensorList``, ``Scalar``, ``ScalarList``, or empty."""
    return [_type_name(a) for a in inputs]


def concrete_values(inputs: Inputs) -> list[Any]:
    """Numbers and lists of numbers as Python values; None for everything else."""
    shown = _NUMBERS | _NUMBER_LISTS
    return [a.value if isinstance(a, Scalar) and a.type in shown else None for a in inputs]


def keyword_values(keywords: dict[str, Argument]) -> dict[str, Any]:
    """Keyword arguments that are not tensors, as Python values."""
    return {name: a.value for name, a in keywords.items() if isinstance(a, Scalar)}


def _each(argument: Argument | None, value_of: Any) -> list[Any]:
    if isinstance(argument, TensorRecord):
        tensor: list[Any] = value_of(argument)
        return tensor
    return [value_of(tensor) for tensor in argument] if isinstance(argument, list) else []


def _type_name(argument: Argument | None) -> str:
    if isinstance(argument, TensorRecord):
        return CPP_NAMES.get(_CODES.get(argument.dtype, -1), "")
    if isinstance(argument, list):
        return "TensorList"
    if not isinstance(argument, Scalar):
        return ""
    if argument.type == ScalarType.TENSOR_LIST:
        return "TensorList"
    if argument.type in _NUMBER_LISTS:
        return "ScalarList"
    return "Scalar" if argument.type in _NUMBERS else ""
