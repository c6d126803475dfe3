"""Copies between devices and types that could be made once, or not at all."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.dtypes import TORCH_NAMES
from opscope.findings.measure import measure_device_copy
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import CUDA, Flags, Subject, Values

_FILLS = ("aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::random_")
_FLOATING = tuple(
    c for c, name in TORCH_NAMES.items() if name in ("float16", "float32", "bfloat16")
)
_CASTS_WORTH_SAYING = 0.01


def _conversions(subject: Subject) -> tuple[Values, Values]:
    """``_to_copy`` of a known tensor (rows), and rows in ``tensors`` of that.

    Without those of single numbers, which torch makes of Python's wherever one is in arithmetic.
    """
    tensor = subject.tensor_argument(0)
    rows = np.flatnonzero(subject.named("aten::_to_copy") & (tensor >= 0))
    offsets = subject.trace.table("tensors").lists("sizes").offsets
    rows = rows[offsets[tensor[rows] + 1] > offsets[tensor[rows]]]
    return rows, tensor[rows]


def _value(subject: Subject, rows: Values, position: int) -> Values:
    """The text of a scalar argument, as a row in names."""
    scalar = subject.scalar_argument(position)[rows]
    values = subject.trace.table("scalars")["value"]
    return np.where(scalar >= 0, values[scalar], -1).astype(np.int64) if len(values) else scalar


def _find_casts(subject: Subject) -> Evidence | None:
    rows, tensor = _conversions(subject)
    table = subject.trace.table("tensors")
    source = table["dtype"][tensor]
    casts = np.isin(source, _FLOATING) & _is_other_float(subject, rows, source)
    rows, tensor = rows[casts], tensor[casts]
    took = subject.duration_ns[rows]
    total = int(took.sum())
    if total < _CASTS_WORTH_SAYING * subject.wall_ns:
        return None
    _, group, count = np.unique(table["storage"][tensor], return_inverse=True, return_counts=True)
    weights = table["requires_grad"][tensor] & (count[group.reshape(-1)] > 1)
    saved = int(took[weights].sum())
    return Evidence(
        events=rows,
        time_ns=total,
        explanation=(
            f"{len(rows):,} tensors were cast between floating-point types, "
            f"{share_text(total / subject.wall_ns)} of the time; {int(weights.sum()):,} of "
            "the casts were of tensors that need gradients, such as weights, cast again each time."
        ),
        saved_ns=saved if saved else None,
        saved_by=(
            "the casts of tensors that need gradients and were cast more than once"
            if saved
            else "no cast repeats one of the same tensor; which ones are needless, the lines tell"
        ),
    )


def _is_other_float(subject: Subject, rows: Values, source: Values) -> Flags:
    names = subject.trace.names
    value = _value(subject, rows, 1)
    codes = {str(code): code for code in _FLOATING}
    target = {row: codes.get(names[row], -1) for row in np.unique(value).tolist()}
    wanted = np.array([target[row] for row in value.tolist()], dtype=np.int64)
    return np.asarray((wanted >= 0) & (wanted != source))


def _find_filled_on_host(subject: Subject) -> Evidence | None:
    """A copy to the device of what the last operator on that memory filled, on the CPU."""
    table = subject.trace.table("tensors")
    tensor, copied = subject.tensor_argument(0), subject.tensor_argument(1)
    copies = np.flatnonzero(subject.named("aten::copy_") & (tensor >= 0) & (copied >= 0))
    to, source = tensor[copies], copied[copies]
    up = (table["device_type"][to] == CUDA) & (table["device_type"][source] != CUDA)
    up &= table["dtype"][to] == table["dtype"][source]
    copies, source = copies[up], source[up]
    fills = np.flatnonzero(subject.named(*_FILLS) & (tensor >= 0))
    pairs = _last_fill(
        subject, fills, table["storage"][tensor[fills]], table["storage"][source], copies
    )
    found = pairs >= 0
    if not found.any():
        return None
    copies, fills = copies[found], pairs[found]
    took = subject.duration_ns[copies] + subject.duration_ns[fills]
    total = int(took.sum())
    kernels_ns = len(copies) * _KERNEL_NS
    return Evidence(
        events=copies,
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"{len(copies):,} tensors were filled on the CPU and then copied to the GPU. The copy "
            "comes from pageable memory, so it also holds up the program."
        ),
        saved_ns=max(total - kernels_ns, 0),
        saved_by=(
            "the copies and the filling, but for a kernel each on the GPU, which takes about "
            f"{_KERNEL_NS // 1000} µs to call"
        ),
    )


def _last_fill(
    subject: Subject, fills: Values, filled: Values, storage: Values, copies: Values
) -> Values:
    """For each copy the fill of its memory among the last few operators before it, -1 for none."""
    result = np.full(len(copies), -1, dtype=np.int64)
    order = np.lexsort((fills, filled))
    keys = filled[order]
    for i, (memory, copy) in enumerate(zip(storage.tolist(), copies.tolist(), strict=True)):
        low, high = np.searchsorted(keys, memory), np.searchsorted(keys, memory, side="right")
        earlier = fills[order[low:high]]
        earlier = earlier[earlier < copy]
        if len(earlier) and subject.events["thread"][earlier[-1]] == subject.events["thread"][copy]:
            gap = subject.start_ns[copy] - subject.end_ns[earlier[-1]]
            between = np.count_nonzero(subject.is_operator[earlier[-1] + 1 : copy])
            result[i] = earlier[-1] if gap >= 0 and between <= _NEARBY else -1
    return result


_KERNEL_NS = 10_000
"""What an operator takes that launches a kernel."""

_NEARBY = 6
"""Operators between a fill and the copy of it: what ``.to`` itself calls."""


CASTS = Pattern(
    id="precision-casts",
    title="Casts between precisions take time",
    advice=(
        "Keep weights that are only read in the lower precision (model.bfloat16()), make autocast "
        "regions larger so that fewer tensors cross them, and create inputs in the type they are "
        "used in."
    ),
    find=_find_casts,
    needs=(Needs.SHAPES, Needs.IDENTITY),
    link="https://pytorch.org/docs/stable/amp.html",
)

FILLED_ON_HOST = Pattern(
    id="extra-device-copy",
    title="Tensors are filled on the CPU and copied to the GPU",
    advice='Make them where they are used: torch.zeros(size, device="cuda").',
    find=_find_filled_on_host,
    needs=(Needs.DEVICE, Needs.SHAPES, Needs.IDENTITY),
    measure=measure_device_copy,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
)
