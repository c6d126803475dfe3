"""Loops over many tensors, each changed by calls of its own."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import share_text, time_text
from opscope.tree.ancestry import subtree_sums

_WORTH_SAYING, _FEWEST = 0.02, 8
"""Tensors in a round of the loop."""

_TOGETHER = (
    "add_", "sub_", "mul_", "div_", "lerp_", "addcmul_", "addcdiv_", "copy_", "zero_", "clamp_",
    "clamp_max_", "clamp_min_", "sqrt_", "neg_", "exp_", "abs_", "sign_", "pow_", "norm",
    "linalg_vector_norm",
)  # fmt: skip
"""Operators that have a form for lists of tensors."""


def _find(subject: Subject) -> Evidence | None:
    """Lines of the program where such operators get many tensors, one after the other."""
    calls = subject.line_calls
    wanted = subject.named(*(f"aten::{name}" for name in _TOGETHER))
    operators = np.flatnonzero(wanted & (subject.operator_parent < 0))
    site = subject.sites.around[operators]
    # Where a function of a library stands in between, the loop is that one's.
    row = np.where((site >= 0) & (subject.sites.frame[site] < 0), calls.row[site], -1)
    operators, row = operators[row >= 0], row[row >= 0]
    if not len(operators):
        return None
    lines = np.flatnonzero(_many_tensors(subject, operators, row))
    chosen = np.isin(calls.group, lines)
    took = int(calls.took_ns[chosen].sum())
    work = int(subtree_sums(subject.parent, subject.work_ns)[calls.events[chosen]].sum())
    saved = took - max(work, 0)
    if not len(lines) or saved < _WORTH_SAYING * subject.wall_ns:
        return None
    count = int(np.isin(calls.group[row], lines).sum())
    return Evidence(
        events=calls.events[chosen],
        event_time_ns=calls.took_ns[chosen],
        time_ns=took,
        explanation=(
            f"A loop changes many tensors one by one: {count:,} calls of operators, "
            f"{time_text(took // max(count, 1))} each, {share_text(took / subject.wall_ns)} of the "
            "time, most of it calling."
        ),
        saved_ns=saved,
        saved_by="the time of the loop without what its operators take beyond the cost of a call",
    )


def _many_tensors(subject: Subject, operators: Values, row: Values) -> Flags:
    """Lines that in one call of their function hand over many tensors, each with its own memory."""
    calls = subject.line_calls
    tensor = subject.tensor_argument(0)[operators]
    storage = subject.tensor_column("storage", tensor)
    keys = np.stack([calls.function[row], calls.group[row], storage])
    distinct = np.unique(keys[:, tensor >= 0], axis=1)
    many = np.zeros(len(calls.lines), dtype=np.bool_)
    if distinct.shape[1]:
        pairs, count = np.unique(distinct[:2], axis=1, return_counts=True)
        many[pairs[1][count >= _FEWEST]] = True
    return many


TENSOR_BY_TENSOR = Pattern(
    id="tensor-by-tensor",
    title="A Python loop changes many tensors one by one",
    advice=(
        "Hand over lists: torch._foreach_lerp_(averages, parameters, 0.01) and the other "
        "torch._foreach_* functions, torch.nn.utils.clip_grad_norm_, or "
        "torch.optim.swa_utils.get_ema_multi_avg_fn for moving averages."
    ),
    find=_find,
    needs=(Needs.SHAPES, Needs.STACKS),
)
