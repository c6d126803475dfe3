"""Copies between devices and types that could be made once, or not at all."""

from __future__ import annotations

import numpy as np

from opscope.columns.dtypes import TORCH_NAMES
from opscope.findings.benchmark import measure_device_copy
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import CUDA, Subject, Values

_FILLS = ("aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::random_")
_FLOATING = [c for c, name in TORCH_NAMES.items() if name in ("float16", "float32", "bfloat16")]
_CASTS_WORTH_SAYING = 0.01
_KERNEL_NS = 10_000  # time of an operator that launches a kernel
_NEARBY = 6  # most operators between a fill and its copy: those that ``.to`` itself calls


def _find_casts(subject: Subject) -> Evidence | None:
    tensor, table = subject.tensor_argument(0), subject.trace.table("tensors")
    rows = np.flatnonzero(subject.named("aten::_to_copy") & (tensor >= 0))
    # Without tensors of one number, which torch makes of Python numbers in arithmetic.
    rows = rows[np.diff(table.lists("sizes").offsets)[tensor[rows]] > 0]
    names = subject.trace.names
    codes = {str(code): code for code in _FLOATING}
    asked = [codes.get(names[row], -1) if row >= 0 else -1
             for row in subject.scalar_argument(1)[rows].tolist()]  # fmt: skip
    target, source = np.array(asked, dtype=np.int64), table["dtype"][tensor[rows]]
    rows = rows[(target >= 0) & (target != source) & np.isin(source, _FLOATING)]
    total = subject.time_ns(rows)
    if not len(rows) or total < _CASTS_WORTH_SAYING * subject.wall_ns:
        return None
    storage, wants = table["storage"][tensor[rows]], table["requires_grad"][tensor[rows]]
    _, group, count = np.unique(storage, return_inverse=True, return_counts=True)
    weights = wants & (count[group.reshape(-1)] > 1)
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} tensors were cast between floating-point types, "
            f"{subject.share(total)} of the time; {int(weights.sum()):,} of the casts were of "
            "tensors that require gradients, such as weights, in each iteration."
        ),
        saved_ns=subject.time_ns(rows[weights]) if weights.any() else None,
        saved_by=(
            "the casts of tensors that require gradients and were cast more than once"
            if weights.any()
            else "no tensor was cast twice; check the lines for needless casts"
        ),
    )


def _find_filled_on_host(subject: Subject) -> Evidence | None:
    """Copies to the device of memory that an operator has just filled on the CPU."""
    table = subject.trace.table("tensors")
    tensor, copied = subject.tensor_argument(0), subject.tensor_argument(1)
    copies = np.flatnonzero(subject.named("aten::copy_") & (tensor >= 0) & (copied >= 0))
    to, source = tensor[copies], copied[copies]
    up = (table["device_type"][to] == CUDA) & (table["device_type"][source] != CUDA)
    up &= table["dtype"][to] == table["dtype"][source]
    copies, source = copies[up], source[up]
    fills = np.flatnonzero(subject.named(*_FILLS) & (tensor >= 0))
    last = _last_fill(subject, fills, table["storage"][tensor[fills]], copies,
                      table["storage"][source])  # fmt: skip
    copies, fills = copies[last >= 0], last[last >= 0]
    if not len(copies):
        return None
    took = subject.duration_ns[copies] + subject.duration_ns[fills]
    return Evidence(
        events=copies,
        event_time_ns=took,
        explanation=(
            f"{len(copies):,} tensors were filled on the CPU and then copied to the GPU. A copy "
            "from pageable memory blocks the program."
        ),
        saved_ns=max(int(took.sum()) - len(copies) * _KERNEL_NS, 0),
        saved_by=(
            f"the copies and the filling, less about {_KERNEL_NS // 1000} µs each for launching "
            "a kernel instead"
        ),
    )


def _last_fill(
    subject: Subject, fills: Values, filled: Values, copies: Values, storage: Values
) -> Values:
    """Latest fill of the memory of each copy among the few operators before it; -1 for none."""
    result, operators = np.full(len(copies), -1, dtype=np.int64), np.cumsum(subject.is_operator)
    thread, ends = subject.events["thread"], subject.end_ns
    for i, (memory, copy) in enumerate(zip(storage.tolist(), copies.tolist(), strict=True)):
        earlier = fills[: np.searchsorted(fills, copy)][-_NEARBY:]
        earlier = earlier[filled[: np.searchsorted(fills, copy)][-_NEARBY:] == memory]
        for fill in earlier[-1:].tolist():
            is_near = operators[copy - 1] - operators[fill] <= _NEARBY
            if is_near and thread[fill] == thread[copy] and ends[fill] <= subject.start_ns[copy]:
                result[i] = fill
    return result


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
    advice='Create them on the GPU: torch.zeros(size, device="cuda").',
    find=_find_filled_on_host,
    needs=(Needs.DEVICE, Needs.SHAPES, Needs.IDENTITY),
    measure=measure_device_copy,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
)
