"""What an optimizer does one parameter at a time, or in vain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.columns.codes import RecordScope
from opscope.columns.shapes import element_counts
from opscope.findings.loop_lines import part_work_ns
from opscope.findings.measure import measure_single_tensor
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, Flags, Subject, Values

_STEP = "Optimizer.step#"
_ZERO_GRAD = ("Optimizer.zero_grad#", ": zero_grad")
_TOGETHER = ("_foreach_", "_fused_")
_LARGE_BYTES, _FLOAT_BYTES = 1 << 17, 4
_FEWEST = 8
"""Operators in a step below which there is nothing to group."""

_WITHOUT_LISTS = ("LBFGS", "Muon", "SparseAdam")
"""torch's optimizers that offer neither foreach nor fused."""

_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_FOREACH = ("Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")

_FUSED_LEAVES, _LISTS_LEAVE = 0.2, 0.74
"""Of what goes, so much stays: Python and the call still go through all parameters to collect them,
and on the CPU functions for lists go through these, too.

Fused Adam, AdamW and SGD with momentum took 14 to 23 % of what they take one by one over 50 to 160
tiny parameters (SGD without momentum 43 to 51 %); Adadelta, RMSprop, NAdam and Adamax with foreach
66 to 84 % over 9 and 60.
"""


@dataclass(frozen=True)
class _Steps:
    """Steps without an operator on lists of tensors.

    Attributes:
        rows: of the steps, in events.
        operators: outermost ones in them, rows in events.
        step: of each operator its step, position in ``rows``.
        took_ns: of each step the time after the closure that it was given, if it was.
    """

    rows: Values
    operators: Values
    step: Values
    took_ns: Values

    def sum(self, of_operators: Values) -> Values:
        """Of each step the sum over its operators."""
        total = np.bincount(self.step, weights=of_operators, minlength=len(self.rows))
        return total.astype(np.int64)


def _single_tensor_steps(subject: Subject) -> _Steps:
    step = subject.named_like(_STEP)
    without = _steps_of(subject, _WITHOUT_LISTS)
    around = subject.during(np.flatnonzero(step))
    since_ns = _after_closures(subject, step, around)
    around = np.where(subject.start_ns >= since_ns[around], around, -1)
    is_single = step & ~without
    together = subject.named_like(*_TOGETHER) & subject.is_operator & (around >= 0)
    is_single[around[together]] = False
    outermost = subject.is_operator & (subject.operator_parent < 0) & (around >= 0)
    count = np.bincount(around[outermost], minlength=len(step))
    is_single &= count >= _FEWEST
    operators = np.flatnonzero(outermost & is_single[around])
    rows = np.flatnonzero(is_single)
    took_ns = subject.end_ns[rows] - since_ns[rows]
    return _Steps(rows, operators, np.searchsorted(rows, around[operators]), took_ns)


def _after_closures(subject: Subject, step: Flags, around: Values) -> Values:
    """Of each event when it began; of a step that ran a closure, when that was over.

    ``step(closure)``, as Lightning and LBFGS have it, runs forward and backward pass before it
    updates anything: what follows the last operator of a backward pass is the optimizer's own.
    """
    since_ns = subject.start_ns.copy()
    backward = subject.is_operator & (subject.events["scope"] == RecordScope.BACKWARD_FUNCTION)
    inside = np.flatnonzero(backward & (around >= 0))
    np.maximum.at(since_ns, around[inside], subject.end_ns[inside])
    return np.minimum(since_ns, np.where(step, subject.end_ns, since_ns))


def _find_single_tensor(subject: Subject) -> Evidence | None:
    steps = _single_tensor_steps(subject)
    count = len(steps.rows)
    if not count:
        return None
    took, of_operators = steps.took_ns, subject.duration_ns[steps.operators]
    work = np.clip(part_work_ns(subject)[steps.operators], 0, of_operators)
    fused = _steps_of(subject, _FUSED)[steps.rows] | subject.has_device
    left = np.where(fused, _FUSED_LEAVES, _LISTS_LEAVE)
    saved = np.maximum(took - steps.sum(work), 0) * (1 - left)
    most = int(np.argmax(took))
    name = subject.trace.event_name(int(steps.rows[most])).removeprefix(_STEP)
    return Evidence(
        events=steps.rows,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{name} updates one parameter at a time: {len(steps.operators) // count:,} operator "
            f"calls from Python in each of {count:,} steps, "
            f"{share_text(took.sum() / subject.wall_ns)} of the time."
        ),
        saved_ns=int(saved.sum()),
        saved_by=(
            "about the time of the steps but what their operators compute, of which calls for all "
            f"parameters leave {left[most]:.0%}: these are still collected one by one"
        ),
        advice=_advice(name.removesuffix(".step")),
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
    zeroing = subject.named_like(*_ZERO_GRAD)
    around = subject.during(np.flatnonzero(zeroing))
    zero = subject.named("aten::zero_", "aten::_foreach_zero_") & (around >= 0)
    zero &= ~zero[subject.operator_parent] | (subject.operator_parent < 0)
    zeros = np.flatnonzero(zero)
    if not len(zeros):
        return None
    events, counted = np.unique(around[zeros]), _of_small_blocks(subject)
    cleared, added = int(subject.duration_ns[zeros].sum()), _additions(subject)
    small = int(subject.duration_ns[zeros[counted[zeros]]].sum())
    large = cleared + added - small - _additions(subject, counted)
    # With the Python around each, in as far as it is for those that count.
    calling = int(subject.duration_ns[events].sum()) - cleared
    # It goes through all parameters in either case: about half of that Python stays.
    saved = cleared + added - large + int(max(calling, 0) * counted[zeros].mean()) // 2
    return Evidence(
        events=events,
        event_time_ns=np.bincount(
            np.searchsorted(events, around[zeros]), subject.duration_ns[zeros]
        ).astype(np.int64),
        time_ns=cleared + added,
        explanation=(
            f"{len(events):,} calls of zero_grad() filled gradients with zeros "
            f"({len(zeros):,} operators, {time_text(cleared)}), so that the backward pass had to "
            f"add to them instead of storing its result ({time_text(added)})."
        ),
        saved_ns=saved,
        saved_by="zero_grad(), and the additions in AccumulateGrad"
        + (
            f", without {time_text(large)} for gradients of more than {bytes_text(_LARGE_BYTES)}: "
            "on the CPU, memory for such is asked of the system anew, which may take longer"
            if large
            else ""
        ),
    )


def _of_small_blocks(subject: Subject) -> Flags:
    """Operators whose first tensor is not a large one on the CPU; all where none was recorded."""
    tensors, tensor = subject.trace.table("tensors"), subject.tensor_argument(0)
    if not len(tensors):
        return tensor < 0
    large = _FLOAT_BYTES * element_counts(tensors.lists("sizes")) > _LARGE_BYTES
    large &= tensors["device_type"] != CUDA
    return np.asarray((tensor < 0) | ~large[tensor])


def _additions(subject: Subject, wanted: Flags | None = None) -> int:
    """Time of nodes that accumulate gradients with ``add_``, and not by keeping what they got.

    With what such a node does around the addition: one that only keeps takes next to nothing.
    """
    storing = subject.inside(subject.named("torch::autograd::AccumulateGrad"))
    adding = subject.named("aten::add_") & (storing >= 0)
    if wanted is not None:
        adding &= wanted
    return int(subject.duration_ns[np.unique(storing[adding])].sum())


SINGLE_TENSOR = Pattern(
    id="single-tensor-optimizer",
    status=Status.SMALL_OPERATORS,
    title="The optimizer updates one parameter at a time",
    advice=(
        "Pass fused=True to the optimizer (Adam, AdamW, SGD and Adagrad have it, on CPU too), or "
        "foreach=True where it is not offered. In one of your own, call functions for lists, such "
        "as torch._foreach_add_."
    ),
    find=_find_single_tensor,
    measure=measure_single_tensor,
    link="https://pytorch.org/docs/stable/optim.html#algorithms",
)

ZEROED_GRADIENTS = Pattern(
    id="gradients-set-to-zero",
    title="Gradients are set to zero, not to None",
    advice=(
        "Call zero_grad(set_to_none=True), which is the default since torch 2.0. The one "
        "difference: a parameter that got no gradient has None, and the optimizer skips it."
    ),
    find=_find_zeroed_gradients,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-gradient-calculation-for-validation-or-inference",
)
