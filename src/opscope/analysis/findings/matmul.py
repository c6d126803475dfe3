"""Matrix products that miss the fast units of the GPU."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.measure import measure_alignment, measure_tf32
from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import CUDA, Flags, Subject, Values
from opscope.analysis.quantity_text import share_text
from opscope.trace.dtypes import TORCH_NAMES

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
"""Products, each with its two matrices as the last of its tensor arguments."""

PRODUCT_CALLS = (*PRODUCTS, "aten::matmul", "aten::linear", "aten::einsum")
"""The same and what calls them: how programs ask for a product."""

_HALF = tuple(c for c, name in TORCH_NAMES.items() if name in ("float16", "bfloat16"))
_FLOAT = next(c for c, name in TORCH_NAMES.items() if name == "float32")
_ALIGNMENT = 8
_FULL_PRECISION_KERNELS = ("sgemm", "f32f32_f32f32")
_TF32_SPEEDUP = 2
"""A cautious figure: TF32 has 8 times the peak of FP32, and memory limits many products."""


def _find_unaligned(subject: Subject) -> Evidence | None:
    rows = np.flatnonzero(subject.named(*PRODUCTS))
    is_half, aligned = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    for position in range(3):
        tensor = subject.tensor_argument(position)[rows]
        known = tensor >= 0
        is_half |= known & np.isin(subject.trace.table("tensors")["dtype"][tensor], _HALF)
        aligned &= ~known | _is_aligned(subject, tensor)
    unaligned, others = rows[is_half & ~aligned], rows[is_half & aligned]
    if not len(unaligned):
        return None
    total = int(subject.duration_ns[unaligned].sum())
    return Evidence(
        events=unaligned,
        time_ns=total,
        explanation=(
            f"{len(unaligned):,} of {len(unaligned) + len(others):,} products in half precision "
            f"have a dimension that is no multiple of {_ALIGNMENT}, so the matrix units cannot be "
            f"fed in full; they take {share_text(total / subject.wall_ns)} of the time."
        ),
        saved_ns=None,
        saved_by="it depends on the library and the device; --benchmark measures it here",
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
    """Products of float32 whose kernels say that they compute in full precision."""
    product = subject.named(*PRODUCTS)
    tensor = subject.tensor_argument(0)
    table = subject.trace.table("tensors")
    product &= (tensor >= 0) & (table["dtype"][tensor] == _FLOAT)
    product &= table["device_type"][tensor] == CUDA
    gpu, names = subject.trace.table("gpu"), subject.trace.names
    launch = gpu["launch"]
    around = np.where(product[launch], launch, subject.inside(product)[launch])
    full = {
        row
        for row in np.unique(gpu["name"]).tolist()
        if any(part in names[row] for part in _FULL_PRECISION_KERNELS) and "tf32" not in names[row]
    }
    kernels = np.flatnonzero((launch >= 0) & (around >= 0) & np.isin(gpu["name"], list(full)))
    if not len(kernels):
        return None
    took = gpu["duration_ns"][kernels]
    total = int(took.sum())
    return Evidence(
        events=around[kernels],
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"{len(kernels):,} products of float32 matrices ran in full precision on the GPU, "
            f"{share_text(total / subject.wall_ns)} of the time. From compute capability 8.0 "
            "on, TF32 computes them on the matrix units, with 10 bits of mantissa."
        ),
        saved_ns=total - total // _TF32_SPEEDUP,
        saved_by=(
            f"half of these kernels' time, taking TF32 to be {_TF32_SPEEDUP} times as fast: it has "
            "8 times the peak, but memory limits many products; --benchmark measures it here"
        ),
    )


UNALIGNED = Pattern(
    id="unaligned-matmul",
    title="Matrix products in half precision have odd sizes",
    advice=(
        f"Make batch size, features and vocabulary multiples of {_ALIGNMENT} (better of 64), "
        "padding where need be."
    ),
    find=_find_unaligned,
    needs=(Needs.SHAPES,),
    measure=measure_alignment,
)

FULL_PRECISION = Pattern(
    id="full-precision-matmul",
    title="Matrix products on the GPU do without TF32",
    advice='Call torch.set_float32_matmul_precision("high") if 10 bits of mantissa are enough.',
    find=_find_full_precision,
    needs=(Needs.KERNELS, Needs.SHAPES),
    measure=measure_tf32,
    link="https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
)
