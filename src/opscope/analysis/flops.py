"""Floating point operations of every event, and the share of operator time that they cover.

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

import numpy as np

from opscope.columns.schema import EventKind, Role
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.signatures import (
    Signature,
    first_of_each,
    mix,
    scalar_signatures,
    shape_signatures,
)
from opscope.timeline.tree.arguments import Argument, Arguments, Scalar, TensorRecord
from opscope.timeline.tree.event_tree import event_tree, events_named, nearest_ancestor

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


def arguments_of_callers(trace: TraceData, wanted: Flags) -> Rows:
    """Number of each event's first arguments that are not its own. Shape (events,).

    If ``torch.func`` unwraps its tensors, torch leaves the wrappers on the stack for the inner
    operator, and reports the whole stack as its arguments. Only events in ``wanted`` count; an
    affected one has a multiple of the arguments of the same operator around it.
    """
    skipped = np.zeros(len(trace.events), dtype=np.int32)
    parent, name = trace.events["parent"], trace.events["name"]
    is_repeated = wanted & (parent >= 0) & wanted[parent] & (name == name[parent])
    if not is_repeated.any():
        return skipped
    counts = _argument_counts(trace)
    own = counts[nearest_ancestor(parent, wanted & ~is_repeated)]
    stacked = is_repeated & (own > 0) & (counts > own)
    stacked[stacked] = counts[stacked] % own[stacked] == 0
    skipped[stacked] = (counts - own)[stacked]
    return skipped


def is_computed_inside(trace: TraceData, skipped: Rows) -> Flags:
    """Whether an event got a tensor that is not empty and has no memory. Shape (events,).

    False for files that do not identify tensors. Meta and fake tensors have no memory either, and
    nothing is computed with them.
    """
    tensors = trace.table("tensors")
    event = tensors["event"]
    bare = (tensors["role"] == Role.INPUT) & (tensors["impl"] != 0) & (tensors["storage"] == 0)
    rows = np.flatnonzero(bare)
    rows = rows[tensors["argument"][rows] >= skipped[event[rows]]]
    result = np.zeros(len(trace.events), dtype=np.bool_)
    result[event[rows[~_is_empty(trace, rows)]]] = True
    return result


def _is_empty(trace: TraceData, rows: Values) -> Flags:
    """Whether a dimension is 0, for rows of ``tensors``."""
    sizes = trace.table("tensors").lists("sizes")
    zeros = np.concatenate([[0], np.cumsum(sizes.values == 0)])
    empty: Flags = zeros[sizes.offsets[rows + 1]] > zeros[sizes.offsets[rows]]
    return empty


def _argument_counts(trace: TraceData) -> Rows:
    """Number of positional arguments recorded for every event. Shape (events,)."""
    counts = np.zeros(len(trace.events), dtype=np.int32)
    for name in ("tensors", "scalars"):
        table = trace.table(name)
        rows = np.flatnonzero(table["role"] == Role.INPUT)
        np.maximum.at(counts, table["event"][rows], table["argument"][rows].astype(np.int32) + 1)
    return counts


@dataclass(frozen=True)
class FlopCounts:
    """Counted operations."""

    # operations of each event, 0 without a formula and inside counted events, so that values add
    # up; shape (events,). Not counted: products of sparse tensors, whose shapes do not give their
    # number of elements, and operators that raised an exception
    flops: Values
    covered_ns: int  # time of the counted events
    operator_ns: int  # time of all outermost operators

    @property
    def coverage(self) -> float:
        """Share of operator time that a formula covers, 0 to 1."""
        return self.covered_ns / self.operator_ns if self.operator_ns else 0.0


@derived
def count_flops(trace: TraceData) -> FlopCounts:
    """Apply the formulas to every event that has one; needs recorded argument shapes."""
    tree, kind = event_tree(trace), trace.events["kind"]
    flops = _values(trace)
    counted = flops >= 0
    if counted.any():
        counted &= nearest_ancestor(tree.parent, counted) < 0
    is_operator = kind == EventKind.OPERATOR
    outermost = is_operator & (nearest_ancestor(tree.parent, is_operator) < 0)
    return FlopCounts(
        flops=np.where(counted, flops, 0),
        covered_ns=int(tree.duration_ns[counted].sum()),
        operator_ns=int(tree.duration_ns[outermost].sum()),
    )


def _values(trace: TraceData) -> Values:
    """Formula value of every event, -1 without one. One call per signature."""
    result = np.full(len(trace.events), -1, dtype=np.int64)
    wanted = _has_formula(trace)
    if not wanted.any() or not len(trace.table("tensors")):
        return result
    skipped = arguments_of_callers(trace, wanted)
    wanted &= ~is_computed_inside(trace, skipped)
    rows = np.flatnonzero(wanted)
    signatures = _signatures(trace, wanted)[rows] ^ mix(skipped[rows].astype(np.uint64))
    group, first = first_of_each(signatures)
    arguments = Arguments(trace)
    per_group = [_apply(trace, arguments, int(e), int(skipped[e])) for e in rows[first]]
    result[rows] = np.array(per_group, dtype=np.int64)[group]
    return result


def _has_formula(trace: TraceData) -> Flags:
    has = events_named(trace, FORMULAS.__contains__)
    has &= trace.events["kind"] == EventKind.OPERATOR
    has &= ~trace.events["raised"]  # unknown how much it computed before the exception
    return has


def _signatures(trace: TraceData, wanted: Flags) -> Signature:
    shapes, scalars = shape_signatures(trace, wanted), scalar_signatures(trace, wanted)
    return mix(mix(shapes) ^ mix(scalars + np.uint64(1)) ^ mix(mix(trace.events["name"])))


def _apply(trace: TraceData, arguments: Arguments, event: int, skipped: int) -> int:
    inputs = arguments.inputs(event)[skipped:]
    call = OperatorCall([_shape(a) for a in inputs], [_value(a) for a in inputs])
    try:
        value = FORMULAS[trace.event_name(event)](call)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return -1  # arguments of a form that the formula does not support: not covered
    return value if value is not None and 0 <= value < 1 << 63 else -1


def _shape(argument: Argument | None) -> tuple[int, ...] | None:
    return argument.sizes if isinstance(argument, TensorRecord) else None


def _value(argument: Argument | None) -> object:
    return argument.value if isinstance(argument, Scalar) else None
