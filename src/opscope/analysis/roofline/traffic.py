"""Minimum memory traffic of an operator: every argument read once, every result written once.

Repeated reads of data that exceeds a cache, and reads of whole cache lines for single elements, do
not count: they are avoidable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from opscope.columns.dtypes import ITEM_SIZES, TORCH_NAMES
from opscope.timeline.tree.arguments import Argument, TensorRecord

Inputs = Sequence[Argument | None]
Traffic = Callable[[Inputs], int]

_SIZES = {TORCH_NAMES[code]: size for code, size in ITEM_SIZES.items() if code in TORCH_NAMES}


def tensors_in(inputs: Inputs) -> list[TensorRecord]:
    """All tensors among the arguments, including those in lists."""
    found: list[TensorRecord] = []
    for one in inputs:
        found += [one] if isinstance(one, TensorRecord) else one if isinstance(one, list) else []
    return [one for one in found if one.dtype]


def item_size(tensor: TensorRecord) -> int:
    """Bytes of an element."""
    return _SIZES.get(tensor.dtype, 1)


def size_of(tensor: TensorRecord) -> int:
    """Bytes of its elements; repeated elements of an expanded tensor count once."""
    strides = tensor.strides or (1,) * len(tensor.sizes)
    stored = [
        size for size, stride in zip(tensor.sizes, strides, strict=False) if stride or not size
    ]
    elements: int = prod(stored)
    return elements * item_size(tensor)


def _read(inputs: Inputs) -> int:
    return sum(map(size_of, tensors_in(inputs)))


def _read_and_broadcast(inputs: Inputs) -> int:
    """All inputs are read; the result has their broadcast shape."""
    tensors = tensors_in(inputs)
    dimensions = max(len(one.sizes) for one in tensors)
    padded = [(1,) * (dimensions - len(one.sizes)) + one.sizes for one in tensors]
    elements: int = prod(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))
    return _read(inputs) + elements * max(map(item_size, tensors))


def _first_written(inputs: Inputs) -> int:
    """All inputs are read; the first one, or a result of its size, is written."""
    return _read(inputs) + size_of(tensors_in(inputs)[0])


def _all_written(inputs: Inputs) -> int:
    """All inputs are read; the result contains all of them."""
    return 2 * _read(inputs)


def _first_list_written(inputs: Inputs) -> int:
    return _read(inputs) + sum(map(size_of, tensors_in(inputs[:1])))


def _matrix_product(inputs: Inputs, first: int = 0) -> int:
    """The factors are at ``first`` and ``first + 1``; an added tensor is read, too."""
    a, b = inputs[first], inputs[first + 1]
    if not isinstance(a, TensorRecord) or not isinstance(b, TensorRecord):
        raise LookupError("a factor is not a tensor")
    return _read(inputs) + prod(a.sizes[:-1]) * b.sizes[-1] * item_size(a)


_POINTWISE = (
    "add", "sub", "rsub", "mul", "div", "pow", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin",
    "cos", "reciprocal", "square", "sigmoid", "tanh", "relu", "gelu", "silu", "elu", "leaky_relu",
    "hardtanh", "hardswish", "softplus", "clamp", "clamp_min", "clamp_max", "maximum", "minimum",
    "addcmul", "addcdiv", "lerp", "where", "masked_fill", "threshold_backward", "gelu_backward",
    "sigmoid_backward", "tanh_backward", "silu_backward", "elu_backward", "floor", "ceil", "round",
)  # fmt: skip
_SHAPE_OF_FIRST = (
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_layer_norm", "native_group_norm", "native_batch_norm", "native_dropout", "clone",
    "cumsum", "flip", "roll", "contiguous",
)  # fmt: skip
_READING = (
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "all", "any", "norm",
    "linalg_vector_norm", "var", "std", "logsumexp", "zero_", "fill_", "copy_", "normal_",
    "uniform_", "random_", "bernoulli_",
)  # fmt: skip
"""``copy_`` reads one and writes one tensor; filling operators only write theirs."""

TRAFFIC: dict[str, Traffic] = {
    **{f"aten::{name}": _read_and_broadcast for name in _POINTWISE},
    **{f"aten::{name}_": _first_written for name in _POINTWISE},
    **{f"aten::_foreach_{name}_": _first_list_written for name in _POINTWISE},
    **{f"aten::{name}": _first_written for name in _SHAPE_OF_FIRST},
    **{f"aten::{name}": _read for name in _READING},
    **{f"aten::{name}": _all_written for name in ("cat", "stack")},
    **{f"aten::{name}": _matrix_product for name in ("mm", "bmm", "mv", "dot")},
    "aten::_to_copy": _read_and_broadcast,
    "aten::addmm": lambda inputs: _matrix_product(inputs, 1),
    "aten::baddbmm": lambda inputs: _matrix_product(inputs, 1),
}
"""Traffic by operator."""


_MOST_BYTES = 1 << 48  # limit of an operator's bytes: more is not addressable, so the file is wrong


def bytes_moved(name: str, inputs: Inputs) -> int | None:
    """Lower bound of the bytes moved; None if the operator or its arguments are unknown."""
    traffic = TRAFFIC.get(name)
    if traffic is None or not tensors_in(inputs):
        return None
    try:
        moved = traffic(inputs)
    except (LookupError, ValueError):
        return None
    return moved if moved <= _MOST_BYTES else None
