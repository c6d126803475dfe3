"""Optimizers that update one parameter at a time, and gradients filled with zeros."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text, time_text
from opscope.findings.benchmark import measure_single_tensor
from opscope.findings.loop_lines import part_work_ns
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import (
    CUDA,
    FLOAT_BYTES,
    MOST_FIXED_COST_NS,
    Flags,
    Subject,
    Values,
)

_STEP = "Optimizer.step#"
_ZERO_GRAD = ("Optimizer.zero_grad#", ": zero_grad")
_TOGETHER = ("_foreach_", "_fused_")
_LARGE_BYTES, _FEWEST = 1 << 17, 8
"""Size of a large gradient; fewest operators in a step that can be grouped."""

_WITHOUT_LISTS = ("LBFGS", "Muon", "SparseAdam")
"""torch's optimizers that offer neither foreach nor fused."""

_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_FOREACH = ("Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")

_FUSED_LEAVES, _LISTS_LEAVE = 0.2, 0.74
"""Share of the call overhead that remains with fused=True and with foreach=True: Python still
collects all parameters, and on the CPU functions for lists loop over them.

Measured with tiny parameters: fused Adam, AdamW and SGD with momentum took 14 to 23 % of the time
over 50 to 160 (SGD without momentum 43 to 51 %); Adadelta, RMSprop, NAdam and Adamax with foreach
66 to 84 % over 9 and 60."""


def _single_tensor_steps(subject: Subject) -> tuple[Values, Values, Values]:
    """Steps without operators on lists: rows, and time of each without its closure.

    Third, the step around each event, -1 for none.
    """
    step = subject.name_contains(_STEP)
    around = subject.during(np.flatnonzero(step))
    # `step(closure)`, as in Lightning and LBFGS, first runs forward and backward pass: the
    # optimizer's own part begins after the last operator of a backward pass.
    since_ns = subject.start_ns.copy()
    inside = np.flatnonzero(subject.is_backward & (around >= 0))
    np.maximum.at(since_ns, around[inside], subject.end_ns[inside])
    since_ns = np.where(step, np.minimum(since_ns, subject.end_ns), subject.start_ns)
    around = np.where(subject.start_ns >= since_ns[around], around, -1)
    together = subject.name_contains(*_TOGETHER) & subject.is_operator
    outermost = subject.is_outermost & (around >= 0)
    many = np.bincount(around[outermost], minlength=len(step)) >= _FEWEST
    single = step & many & ~_steps_of(subject, _WITHOUT_LISTS)
    single &= ~subject.flags(around[together])[:-1]
    rows = np.flatnonzero(single)
    return rows, (subject.end_ns - since_ns)[rows], np.where(single[around], around, -1)


def _find_single_tensor(subject: Subject) -> Evidence | None:
    rows, took, around = _single_tensor_steps(subject)
    if not len(rows):
        return None
    operators = np.flatnonzero(subject.is_outermost & (around >= 0))
    work = np.clip(part_work_ns(subject)[operators], 0, subject.duration_ns[operators])
    work = np.bincount(around[operators], work, len(subject.parent)).astype(np.int64)[rows]
    fused = _steps_of(subject, _FUSED)[rows] | subject.has_device
    left = np.where(fused, _FUSED_LEAVES, _LISTS_LEAVE)
    most = int(np.argmax(took))
    name = subject.trace.event_name(int(rows[most])).removeprefix(_STEP)
    return Evidence(
        events=rows,
        event_time_ns=took,
        explanation=(
            f"{name} updates one parameter at a time: {len(operators) // len(rows):,} operator "
            f"calls from Python in each of {len(rows):,} steps, {subject.share(took.sum())} of the "
            "time."
        ),
        saved_ns=int((np.maximum(took - work, 0) * (1 - left)).sum()),
        saved_by=(
            "about the time of the steps without the computing time of their operators; a "
            f"fused step keeps {left[most]:.0%} of it, to collect the parameters"
        ),
        advice=_advice(name.removesuffix(".step")),
        # With long operators, a fused step saves passes over memory.
        status=Status.OPERATORS if took.sum() > MOST_FIXED_COST_NS * len(operators) else None,
    )


def _steps_of(subject: Subject, kinds: tuple[str, ...]) -> Flags:
    """Which events are steps of one of these optimizers of torch's."""
    return subject.named(*(f"{_STEP}{name}.step" for name in kinds))


def _advice(name: str) -> str:
    if name in _FUSED:
        return f"Pass fused=True to {name}, which has it on CPU too."
    if name in _FOREACH:
        return f"Pass foreach=True to {name}, which has no fused form."
    return ""


def _find_zeroed_gradients(subject: Subject) -> Evidence | None:
    around = subject.during(np.flatnonzero(subject.name_contains(*_ZERO_GRAD)))
    zero = subject.named("aten::zero_", "aten::_foreach_zero_") & (around >= 0)
    zeros = np.flatnonzero(zero & ~np.append(zero, False)[subject.operator_parent])
    if not len(zeros):
        return None
    events, counted = np.unique(around[zeros]), _of_small_blocks(subject)
    cleared, added = subject.time_ns(zeros), _additions_ns(subject)
    small = subject.time_ns(zeros[counted[zeros]])
    large = cleared + added - small - _additions_ns(subject, counted)
    took = np.bincount(np.searchsorted(events, around[zeros]), subject.duration_ns[zeros])
    return Evidence(
        events=events,
        event_time_ns=took.astype(np.int64),
        time_ns=cleared + added,
        explanation=(
            f"{len(events):,} calls of zero_grad() filled gradients with zeros ({len(zeros):,} "
            f"operators, {time_text(cleared)}), so the backward pass added to them instead of "
            f"storing its result ({time_text(added)})."
        ),
        saved_ns=cleared + added - large,
        saved_by="zero_grad() and the additions in AccumulateGrad"
        + (
            f", without {time_text(large)} for gradients above {bytes_text(_LARGE_BYTES)}: on "
            "the CPU, allocating these again may take longer"
            if large
            else ""
        ),
    )


def _of_small_blocks(subject: Subject) -> Flags:
    """Operators whose first tensor is small or on a GPU; all operators without recorded tensors."""
    tensor = subject.tensor_argument(0)
    large = FLOAT_BYTES * subject.elements[tensor] > _LARGE_BYTES
    return np.asarray(~large | (subject.tensor_column("device_type", tensor) == CUDA))


def _additions_ns(subject: Subject, wanted: Flags | None = None) -> int:
    """Time of nodes that add to a gradient; a node that only stores one takes almost no time."""
    storing = subject.inside(subject.named("torch::autograd::AccumulateGrad"))
    adding = subject.named("aten::add_") & (storing >= 0)
    return subject.time_ns(np.unique(storing[adding if wanted is None else adding & wanted]))


SINGLE_TENSOR = Pattern(
    id="single-tensor-optimizer",
    status=Status.SMALL_OPERATORS,
    title="The optimizer updates one parameter at a time",
    advice=(
        "Pass fused=True to the optimizer (Adam, AdamW, SGD and Adagrad have it, also on CPU), "
        "else foreach=True. In your own optimizer, use functions for lists, such as "
        "torch._foreach_add_."
    ),
    find=_find_single_tensor,
    measure=measure_single_tensor,
    link="https://pytorch.org/docs/stable/optim.html#algorithms",
)

ZEROED_GRADIENTS = Pattern(
    id="gradients-set-to-zero",
    title="Gradients are set to zero, not to None",
    advice=(
        "Call zero_grad(set_to_none=True), which is the default since torch 2.0. The only "
        "difference: a parameter without gradient has None, and the optimizer skips it."
    ),
    find=_find_zeroed_gradients,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-gradient-calculation-for-validation-or-inference",
)
