"""Matrix products that do not use the GPU's matrix units, or are computed in the costlier order."""

from __future__ import annotations

import numpy as np

from opscope.analysis.flops import count_flops
from opscope.base.quantity_text import share_text
from opscope.columns.dtypes import TORCH_NAMES
from opscope.findings.backward_passes import backward_steps, steps_take_ns
from opscope.findings.benchmark import measure_alignment, measure_tf32
from opscope.findings.pattern import TENSORS, Evidence, Needs, Pattern
from opscope.findings.repeated_values import computed_values
from opscope.findings.saving import Saves
from opscope.findings.subject import Flags, Subject, Values

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
"""Products; their last two tensor arguments are the matrices."""

_LAYERS = ("aten::linear", "aten::addmm", "aten::baddbmm")
"""Products that add a bias have no other order."""

PRODUCT_CALLS = (*PRODUCTS, "aten::matmul", "aten::linear", "aten::einsum")
"""Products, and operators by which programs call them."""

HALF = tuple(c for c, name in TORCH_NAMES.items() if name in ("float16", "bfloat16"))
_FLOAT = next(c for c, name in TORCH_NAMES.items() if name == "float32")
_ALIGNMENT = 8
_FULL_PRECISION_KERNELS = ("sgemm", "f32f32_f32f32")
_WITH_TF32 = (8, 0)
_TF32_SPEEDUPS = {(8, 0): 6.5, (9, 0): 6.5, (10, 0): 6.5}
"""Speed-up of large products by TF32, by compute capability.

Measured for 4096 x 4096 on an H100: 6.8. The peak ratio is 8 there and on an A100, and 2 on cards
for games and workstations."""
_OTHER_SPEEDUP = 2.0

_LEAST_KERNEL_NS = 5_000  # shortest time of a product's kernel


def _find_unaligned(subject: Subject) -> Evidence | None:
    rows = np.flatnonzero(subject.named(*PRODUCTS))
    is_half, aligned = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    for position in range(3):
        tensor = subject.tensor_argument(position)[rows]
        known = tensor >= 0
        is_half |= known & np.isin(subject.trace.table("tensors")["dtype"][tensor], HALF)
        aligned &= ~known | _is_aligned(subject, tensor)
    unaligned, others = rows[is_half & ~aligned], rows[is_half & aligned]
    if not len(unaligned):
        return None
    return Evidence(
        events=unaligned,
        explanation=(
            f"{len(unaligned):,} of {len(unaligned) + len(others):,} half-precision products "
            f"have a dimension that is not a multiple of {_ALIGNMENT}, so the matrix units are "
            f"not fully used; they take {subject.share(subject.time_ns(unaligned))} of the "
            "time."
        ),
        saved_ns=None,
        saved_by="depends on library and device; --benchmark measures it on this machine",
    )


def _is_aligned(subject: Subject, tensor: Values) -> Flags:
    """Whether the last two sizes of each tensor are multiples of the alignment."""
    sizes = subject.trace.table("tensors").lists("sizes")
    begin, end = sizes.offsets[tensor], sizes.offsets[tensor + 1]
    result = np.ones(len(tensor), dtype=np.bool_)
    for back in (1, 2):
        there = end - back >= begin
        value = sizes.values[np.where(there, end - back, 0)] if len(sizes.values) else begin * 0
        result &= ~there | (value % _ALIGNMENT == 0)
    return result


def _find_full_precision(subject: Subject) -> Evidence | None:
    """Products of float32 whose kernels' names show full precision."""
    product = subject.named(*PRODUCTS)
    tensor = subject.tensor_argument(0)
    product &= (tensor >= 0) & (subject.tensor_column("dtype", tensor) == _FLOAT)
    gpu, names = subject.trace.table("gpu"), subject.trace.names
    launch = gpu["launch"]
    around = np.where(product[launch], launch, subject.inside(product)[launch])
    full = [
        row
        for row in np.unique(gpu["name"]).tolist()
        if any(part in names[row] for part in _FULL_PRECISION_KERNELS) and "tf32" not in names[row]
    ]
    kernels = np.flatnonzero((launch >= 0) & (around >= 0) & np.isin(gpu["name"], full))
    speedup = _tf32_speedup(subject)
    if not len(kernels) or speedup <= 1:
        return None
    took = gpu["duration_ns"][kernels]
    total = int(took.sum())
    left = int(np.minimum(np.maximum(took / speedup, _LEAST_KERNEL_NS), took).sum())
    return Evidence(
        events=around[kernels],
        event_time_ns=took,
        explanation=(
            f"{len(kernels):,} products of float32 matrices ran in full precision on the GPU, "
            f"{subject.share(total)} of the time. From compute capability 8.0 "
            "on, TF32 computes them on the matrix units, with 10 bits of mantissa."
        ),
        saved_ns=total - left,
        saved_by=(
            f"assuming that TF32 is {speedup:g} times as fast on this device and that a kernel "
            f"takes at least {_LEAST_KERNEL_NS // 1000} µs; --benchmark measures it on this "
            "machine"
        ),
        saves=Saves.WORK,
    )


def _tf32_speedup(subject: Subject) -> float:
    """Speed-up on the slowest device of the recording; 1 if a device is known to have no TF32."""
    known = [
        (int(one["computeMajor"]), int(one["computeMinor"]))
        for one in subject.trace.metadata.get("deviceProperties") or ()
        if "computeMajor" in one and "computeMinor" in one
    ]
    return min(
        (1.0 if one < _WITH_TF32 else _TF32_SPEEDUPS.get(one, _OTHER_SPEEDUP) for one in known),
        default=_OTHER_SPEEDUP,
    )


def _find_order(subject: Subject) -> Evidence | None:
    """Products of two matrices whose only use is a product with a third, of few rows."""
    values, flops = computed_values(subject), subject.sums(count_flops(subject.recorded).flops)
    product = subject.is_outermost & (flops > 0) & subject.named(*PRODUCT_CALLS)
    inner, scaling = product & ~subject.named(*_LAYERS), subject.named("aten::mul", "aten::div")
    event, elements, size = values.event, subject.elements[values.rows], len(product)
    first_given = np.full(size, -1, dtype=np.int64)
    first_given[event[::-1]] = values.producer[::-1]
    made = values.producer
    made = np.where((made >= 0) & scaling[made], first_given[made], made)
    used = (made >= 0) & ~scaling[event]
    is_only_use = np.bincount(made[used], minlength=size)[made] == 1
    rows = np.flatnonzero(used & is_only_use & inner[made] & product[event])
    first, second = made[rows], event[rows]
    # (a x b) @ (b x c) and then with t rows: in the other order these are t (a b + b c) products.
    given = np.bincount(event, elements, size)[first]
    other = flops[second] / np.maximum(elements[rows], 1) * given
    going = 1 - other / np.maximum(flops[first] + flops[second], 1)
    _, forward = backward_steps(subject)
    made_by = np.where(forward >= 0, subject.outermost_operator[forward], -1)
    back = np.bincount(made_by[made_by >= 0], steps_take_ns(subject)[made_by >= 0], size)
    took = np.maximum(subject.duration_ns - subject.call_cost_ns, 0) + back
    saved = going * (took[first] + took[second])
    chosen = saved > 0
    if not chosen.any():
        return None
    return Evidence(
        events=np.unique(np.concatenate([first[chosen], second[chosen]])),
        explanation=(
            f"{int(chosen.sum()):,} products multiply two matrices first, and their result with a "
            "third that has few rows. In the other order, as (x @ a) @ b in place of "
            f"x @ (a @ b), they compute {share_text(1 - float(going[chosen].mean()))} of it."
        ),
        saved_ns=int(saved[chosen].sum()),
        saved_by="the products and their backward pass, in proportion to what they compute",
    )


UNALIGNED = Pattern(
    id="unaligned-matmul",
    title="Half-precision matrix products have unaligned sizes",
    advice=(
        f"Make batch size, features and vocabulary multiples of {_ALIGNMENT} (better of 64), "
        "with padding if necessary."
    ),
    find=_find_unaligned,
    needs=(Needs.SHAPES,),
    measure=measure_alignment,
)

FULL_PRECISION = Pattern(
    id="full-precision-matmul",
    title="Float32 matrix products on the GPU do not use TF32",
    advice='Call torch.set_float32_matmul_precision("high") if 10 bits of mantissa are enough.',
    find=_find_full_precision,
    needs=(Needs.KERNELS, Needs.SHAPES),
    measure=measure_tf32,
    link="https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
)

ORDER = Pattern(
    id="costly-product-order",
    title="Three matrices are multiplied in the costlier order",
    advice=(
        "Multiply with the small matrix first: (x @ a) @ b, not x @ (a @ b); "
        "torch.linalg.multi_dot chooses the order."
    ),
    find=_find_order,
    needs=TENSORS,
    worth_saying=0.02,
    link="https://pytorch.org/docs/stable/generated/torch.linalg.multi_dot.html",
)
