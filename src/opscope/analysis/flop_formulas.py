"""Floating point operations of single calls, from argument shapes and values.

A multiplication and an addition count one each, so (m, k) times (k, n) is 2·m·k·n operations. Bias,
activation and masks (causal or not) are not counted, as in ``torch.utils.flop_counter``. A formula
returns None if the recorded arguments are insufficient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

Shape = Sequence[int]


@dataclass(frozen=True)
class OperatorCall:
    """Arguments of one call, by position."""

    shapes: Sequence[Shape | None]  # shapes of tensors; None for everything else
    values: Sequence[Any]  # values of scalars and lists of them; None for everything else

    def shape(self, position: int) -> Shape:
        """Shape of a tensor argument; LookupError for another argument."""
        shape = self.shapes[position]
        if shape is None:
            raise LookupError(f"argument {position} is not a tensor")
        return shape

    def value(self, position: int, default: Any = None) -> Any:
        """Value of a scalar argument, ``default`` if it was not recorded."""
        value = self.values[position] if position < len(self.values) else None
        return default if value is None else value


Formula = Callable[[OperatorCall], "int | None"]


def matrix_product(call: OperatorCall, first: int = 0) -> int:
    """(..., m, k) times (..., k, n), the factors at ``first`` and ``first + 1``."""
    a, b = call.shape(first), call.shape(first + 1)
    return 2 * prod(a) * b[-1]


def vector_product(call: OperatorCall, first: int = 0) -> int:
    """(m, k) or (k) times (k), the factors at ``first`` and ``first + 1``."""
    return 2 * prod(call.shape(first))


def recurrent_layer(call: OperatorCall, products: int = 1) -> int:
    """(steps, batch, features) with weights at 1 for the input and at 2 for the state, per step."""
    *steps_and_batch, _ = call.shape(0)
    return 2 * prod(steps_and_batch) * (prod(call.shape(1)) + prod(call.shape(2))) * products


def elementwise(call: OperatorCall) -> int:
    """One operation per element of the broadcast result."""
    shapes = [shape for shape in call.shapes[:2] if shape is not None]
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    return prod(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))


@dataclass(frozen=True)
class _ConvolutionSignature:
    """Argument positions of a convolution; ``transposed`` None: at ``transposed_at``."""

    stride: int
    padding: int
    dilation: int
    transposed: bool | None = None
    transposed_at: int = -1


def convolution(call: OperatorCall, signature: _ConvolutionSignature) -> int | None:
    """1-, 2- and 3-dimensional, with groups, dilation, stride and padding; also transposed."""
    x, weight = call.shape(0), call.shape(1)
    spatial = len(weight) - 2
    batch = x[0] if len(x) == len(weight) else 1
    transposed = signature.transposed
    if transposed is None:
        transposed = bool(call.value(signature.transposed_at, False))
    positions: Sequence[int] | None = x[-spatial:]
    if not transposed:
        positions = _output_sizes(call, signature, x[-spatial:], weight[2:])
    # Each position of the smaller side meets the whole filter once per pair of channels in a group.
    return None if positions is None else 2 * batch * prod(positions) * prod(weight)


def _output_sizes(
    call: OperatorCall, signature: _ConvolutionSignature, sizes: Shape, kernel: Shape
) -> list[int] | None:
    count = len(sizes)
    stride = _per_dimension(call.value(signature.stride, 1), count)
    dilation = _per_dimension(call.value(signature.dilation, 1), count)
    padding = call.value(signature.padding)
    if padding == "same":
        return [-(-size // step) for size, step in zip(sizes, stride, strict=True)]
    if padding is None:  # not recorded: a guess would be off by the border
        return None
    pad = [0] * count if padding == "valid" else _per_dimension(padding, count)
    rows = zip(sizes, kernel, stride, pad, dilation, strict=True)
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in rows]


def _per_dimension(value: Any, count: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * count if len(values) == 1 else values


def convolution_backward(call: OperatorCall) -> int:
    """Each requested gradient, of input and weight, costs as much as the forward."""
    gradient, x, weight = call.shape(0), call.shape(1), call.shape(2)
    transposed, mask = bool(call.value(7, False)), call.value(10, [True, True, False])
    positions = (x if transposed else gradient)[2:]
    return 2 * x[0] * prod(positions) * prod(weight) * sum(map(bool, mask[:2]))


def attention(call: OperatorCall, first: int = 0) -> int:
    """Scores (q·kᵀ) and their product with v; the arguments start at ``first``."""
    *batch_and_heads, queries, width = call.shape(first)
    keys, value_width = call.shape(first + 1)[-2], call.shape(first + 2)[-1]
    return 2 * prod(batch_and_heads) * queries * keys * (width + value_width)


def attention_backward(call: OperatorCall) -> int:
    """Scores again, then the gradients of value, scores, query and key."""
    *batch_and_heads, queries, width = call.shape(1)
    keys, value_width = call.shape(2)[-2], call.shape(3)[-1]
    return 2 * prod(batch_and_heads) * queries * keys * (3 * width + 2 * value_width)


def _attention_kernel(call: OperatorCall, first: int = 0, backward: bool = False) -> int | None:
    """Kernels of the operators above: (batch, length, heads, width), unless packed."""
    query, key, value = (call.shape(first + i) for i in range(3))
    if len(query) != 4:  # sequences of different lengths packed into one: not in the shapes
        return None
    batch, queries, heads, width = query
    per_pair = 3 * width + 2 * value[-1] if backward else width + value[-1]
    return 2 * batch * heads * queries * key[1] * per_pair


_PLAIN = _ConvolutionSignature(stride=3, padding=4, dilation=5, transposed=False)
_TRANSPOSED = _ConvolutionSignature(stride=3, padding=4, dilation=7, transposed=True)
_GENERAL = _ConvolutionSignature(stride=3, padding=4, dilation=5, transposed_at=6)
_PADDING_FIRST = _ConvolutionSignature(stride=4, padding=3, dilation=5, transposed=False)

FORMULAS: dict[str, Formula] = {
    "aten::mm": matrix_product,
    "aten::_scaled_mm": matrix_product,
    "aten::bmm": matrix_product,
    "aten::addmm": partial(matrix_product, first=1),
    "aten::addmm_": partial(matrix_product, first=1),
    "aten::baddbmm": partial(matrix_product, first=1),
    "aten::baddbmm_": partial(matrix_product, first=1),
    "aten::addbmm": partial(matrix_product, first=1),
    "aten::addbmm_": partial(matrix_product, first=1),
    "aten::_addmm_activation": partial(matrix_product, first=1),
    "aten::mv": vector_product,
    "aten::dot": vector_product,
    "aten::vdot": vector_product,
    "aten::addmv": partial(vector_product, first=1),
    "aten::addmv_": partial(vector_product, first=1),
    "aten::mkldnn_rnn_layer": recurrent_layer,
    "aten::mkldnn_rnn_layer_backward": partial(recurrent_layer, products=2),
    "aten::add": elementwise,
    "aten::add_": elementwise,
    "aten::mul": elementwise,
    "aten::mul_": elementwise,
    "aten::convolution_backward": convolution_backward,
    "aten::_flash_attention_forward": _attention_kernel,
    "aten::_efficient_attention_forward": _attention_kernel,
    "aten::_flash_attention_backward": partial(_attention_kernel, first=1, backward=True),
    "aten::_efficient_attention_backward": partial(_attention_kernel, first=1, backward=True),
}
for _dimensions in (1, 2, 3):
    FORMULAS[f"aten::conv{_dimensions}d"] = partial(convolution, signature=_PLAIN)
    FORMULAS[f"aten::conv_transpose{_dimensions}d"] = partial(convolution, signature=_TRANSPOSED)
for _name in ("convolution", "_convolution", "convolution_overrideable"):
    FORMULAS[f"aten::{_name}"] = partial(convolution, signature=_GENERAL)
FORMULAS["aten::mkldnn_convolution"] = partial(convolution, signature=_PADDING_FIRST)
for _name in ("flash", "efficient", "cudnn", "fused"):
    _stem = f"aten::_scaled_dot_product_{_name}_attention"
    _stem += "_overrideable" if _name == "fused" else ""
    FORMULAS[_stem] = attention
    FORMULAS[f"{_stem}_backward"] = attention_backward
FORMULAS["aten::_scaled_dot_product_flash_attention_for_cpu"] = attention
FORMULAS["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] = attention_backward
"""Formula by operator. The composite ``aten::scaled_dot_product_attention`` has none: each kernel
that it chooses has one, and its decomposed form consists of matrix products."""
