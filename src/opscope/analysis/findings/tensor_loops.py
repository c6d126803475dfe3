"""Loops over many tensors, each changed by calls of its own."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import share_text, time_text
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import EventKind
from opscope.tree.ancestry import depths, nearest_ancestor, subtree_sums

_WORTH_SAYING, _FEWEST = 0.02, 8
"""Tensors in a round of the loop."""

_OF_CALLS = 0.25
"""Of what a line calls, so much must be such operators: else the line is something else."""

_OF_TENSORS, _OF_NUMBERS, _OF_NORMS, _OF_OTHERS = 0.65, 0.9, 1.15, 0.8
"""Of an operator's time in functions for lists on the CPU, which go through all tensors too.

Those that get another tensor measured 0.5 to 0.75, those that get a number 0.75 to 0.95, and a norm
with what puts those of a list together 1 to 1.3: 40 and 400 tensors of 32 to 4,096 elements.
"""

_CALL_NS = 1_500
"""Of longer operators the rest is computing, and all of that stays."""

_LISTS, _ALONE_NS = 0.05, 1_500
"""On a GPU: of the host's time so much stays, and of each kernel what it takes beyond its start."""

_METHODS = "torch/_tensor.py"

_TOGETHER = (
    "add_", "sub_", "mul_", "div_", "lerp_", "addcmul_", "addcdiv_", "copy_", "zero_", "clamp_",
    "clamp_max_", "clamp_min_", "sqrt_", "neg_", "exp_", "abs_", "sign_", "pow_", "norm",
    "linalg_vector_norm",
)  # fmt: skip
"""Operators that have a form for lists of tensors."""

_NORMS = ("norm", "linalg_vector_norm")


def _find(subject: Subject) -> Evidence | None:
    """Lines of the program where such operators get many tensors, one after the other."""
    calls = subject.line_calls
    wanted = subject.named(*(f"aten::{name}" for name in _TOGETHER))
    operators = np.flatnonzero(wanted & (subject.operator_parent < 0))
    site = subject.sites.around[operators]
    # Where a function of a library stands in between, the loop is that one's; but not where it
    # is a method of a tensor that torch has in Python, such as norm().
    own = (subject.sites.frame < 0) | subject.calls_of(_METHODS)
    row = np.where((site >= 0) & own[site], calls.row[site], -1)
    called = row >= 0
    called[called] = ~_inside_a_call(subject, operators[called], row[called])
    operators, row = operators[called], row[called]
    if not len(operators):
        return None
    calling = np.bincount(calls.group[row], minlength=len(calls.lines))
    mostly = calling >= _OF_CALLS * np.bincount(calls.group, minlength=len(calls.lines))
    lines = np.flatnonzero(_many_tensors(subject, operators, row) & mostly)
    chosen = np.isin(calls.group, lines)
    took = int(calls.took_ns[chosen].sum())
    inside = subtree_sums(subject.parent, _in_lists_ns(subject, wanted))[calls.events[chosen]]
    stays = max(int(inside.sum()), 0)
    on_device = _on_device(subject, calls.events[chosen], took)
    saved = took - stays if on_device is None else on_device
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
        saved_by=(
            f"the time of the loop but {time_text(stays)}: on the CPU, what takes lists goes "
            "through them too, if not from Python, and needs "
            f"{_OF_TENSORS:.0%} of what such operators take that get another tensor, "
            f"{_OF_NUMBERS:.0%} of those that get a number, and of norms what each of them takes"
            if on_device is None
            else f"the time of the loop but {_LISTS:.0%} of the host's, and of each kernel all "
            f"beyond {_ALONE_NS / 1000:g} µs: on a GPU a few kernels do what is for a whole list"
        ),
    )


def _in_lists_ns(subject: Subject, wanted: Flags) -> Values:
    """What each outermost operator takes in a function for lists; 0 for other events."""
    result = np.zeros(len(subject.parent), dtype=np.int64)
    rows = subject.outermost
    second = subject.tensor_argument(1)[rows] >= 0
    share = np.where(second, _OF_TENSORS, _OF_NUMBERS)
    share[subject.named(*(f"aten::{name}" for name in _NORMS))[rows]] = _OF_NORMS
    share[~wanted[rows]] = _OF_OTHERS
    took = subject.duration_ns[rows]
    calling = np.minimum(took, _CALL_NS)
    result[rows] = took - (1 - share) * calling
    return result


def _on_device(subject: Subject, events: Values, took_ns: int) -> int | None:
    """What functions for lists save of a loop's calls on a device; None: they launch nothing."""
    chosen = np.zeros(len(subject.parent), dtype=np.bool_)
    chosen[events] = True
    work = subject.trace.table("gpu")["duration_ns"][subject.work_in(chosen)]
    if not len(work):
        return None
    return int((1 - _LISTS) * took_ns + np.minimum(work, _ALONE_NS).sum())


def _inside_a_call(subject: Subject, operators: Values, row: Values) -> Flags:
    """Which belong to an optimizer's step, or a network's call, that the line makes: no loop of it.

    Where functions of libraries were not recorded, nothing else stands in between.
    """
    is_call = (subject.events["kind"] == EventKind.MODULE_CALL) | subject.is_training
    call = nearest_ancestor(subject.parent, is_call)[operators]
    depth = depths(subject.parent)
    function = subject.line_calls.function[row]
    return np.asarray((call >= 0) & (depth[call] > depth[function]), dtype=np.bool_)


def _many_tensors(subject: Subject, operators: Values, row: Values) -> Flags:
    """Lines that in one call of their function hand over many tensors, each with its own memory."""
    calls = subject.line_calls
    tensor = subject.tensor_argument(0)[operators]
    storage = subject.tensor_column("storage", tensor)
    keys = (column[tensor >= 0] for column in (calls.function[row], calls.group[row], storage))
    pairs = group_rows(*group_rows(*keys).columns[:2])
    many = np.zeros(len(calls.lines), dtype=np.bool_)
    many[pairs.columns[1][pairs.count >= _FEWEST]] = True
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
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.STACKS),
)
