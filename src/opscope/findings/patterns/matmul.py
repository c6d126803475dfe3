"""Matrix products that do not use the GPU's matrix units."""

from __future__ import annotations

import numpy as np

from opscope.columns.dtypes import TORCH_NAMES
from opscope.findings.benchmark import measure_alignment, measure_tf32
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.saving import Saves
from opscope.findings.subject import Flags, Subject, Values

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
"""Products; their last two tensor arguments are the matrices."""

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
