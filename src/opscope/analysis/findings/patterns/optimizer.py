"""What an optimizer does one parameter at a time, or in vain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.findings.loop_lines import part_work_ns
from opscope.analysis.findings.measure import measure_single_tensor
from opscope.analysis.findings.pattern import Evidence, Pattern
from opscope.analysis.findings.subject import CUDA, Flags, Subject, Values
from opscope.analysis.grouped_medians import medians
from opscope.analysis.quantity_text import bytes_text, share_text, time_text
from opscope.trace.codes import RecordScope
from opscope.trace.row_groups import group_rows
from opscope.trace.shapes import element_counts

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

_COLLECTING, _COLLECTING_FOR_ADDITIONS = 0.17, 0.47
"""Of what goes, so much stays: Python and the call still go through all parameters to collect them.

Fused Adam, AdamW and SGD with momentum took 14 to 23 % of what they take one by one over 50 to 160
tiny parameters. SGD without momentum, which adds once for each, took 43 to 51 %.
"""

_MOVING_AVERAGES, _OF_WORK = ("Adam", "AdamW"), 0.3
"""One pass over the elements does what a dozen operators do, in so much of what these compute.

From 64 to 20,000 elements in each of 50 parameters one by one grew by 1.6 and 1.7 ns an element,
and fused by 0.5.
"""

_LISTS_ON_CPU = 0.74
"""So much stays where there are functions for lists alone, and they go through them on the CPU.

Adadelta, RMSprop, NAdam and Adamax took 66 to 84 % with foreach, over 9 and 60 small parameters.
"""

_ODD = 1.5
"""A step that takes so many times as long as most like it was interrupted."""


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
    between = np.maximum(took - steps.sum(of_operators), 0)
    calls = len(steps.operators) - count
    fastest, elements = int(np.percentile(of_operators, 5)), ""
    saved = np.minimum(between + fastest * (steps.sum(np.ones_like(steps.step)) - 1), took)
    once = np.zeros(count)
    if len(subject.trace.table("tensors")):
        work = np.clip(part_work_ns(subject)[steps.operators], 0, of_operators)
        computing = steps.sum(work)
        saved = np.maximum(took - computing - fastest, saved)
        averages = _steps_of(subject, _MOVING_AVERAGES)[steps.rows]
        once = np.where(averages, computing * (1 - _OF_WORK), 0)
        passes = "one pass over " if once.any() else ""
        elements = f", and what else small tensors take but for {passes}their elements"
    left = _left(subject, steps)
    saved = np.minimum(saved * (1 - left) + once, took).astype(np.int64)
    saved = _uninterrupted(subject, steps, saved)
    most = int(np.argmax(took))
    name = _name(subject, int(steps.rows[most]))
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
            f"Python between the operators of a step ({time_text(int(between.sum()))}) and the "
            f"fixed cost of {calls:,} calls ({time_text(fastest)} each, as the fastest of them)"
            f"{elements}, of which calls for all parameters leave {left[most]:.0%}: these are "
            "still collected one by one"
        ),
        advice=_advice(name.removesuffix(".step")),
    )


def _name(subject: Subject, row: int) -> str:
    return subject.trace.event_name(row).removeprefix(_STEP)


def _left(subject: Subject, steps: _Steps) -> npt.NDArray[np.float64]:
    """Of what each step could save, the share that stays with what its optimizer offers."""
    fused = _steps_of(subject, _FUSED)[steps.rows] | subject.has_device
    scaled = steps.sum(subject.named("aten::mul_")[steps.operators].astype(np.int64)) > 0
    only_adds = _steps_of(subject, ("SGD",))[steps.rows] & ~scaled
    collecting = np.where(only_adds, _COLLECTING_FOR_ADDITIONS, _COLLECTING)
    return np.where(fused, collecting, _LISTS_ON_CPU)


def _steps_of(subject: Subject, kinds: tuple[str, ...]) -> Flags:
    """Which events are steps of one of these optimizers of torch's."""
    return subject.named(*(f"{_STEP}{name}.step" for name in kinds))


def _advice(name: str) -> str:
    if name in _FUSED:
        return f"Pass fused=True to {name}, which has it on CPU too."
    if name in _FOREACH:
        return f"Pass foreach=True to {name}, which has no fused form."
    return ""


def _uninterrupted(subject: Subject, steps: _Steps, saved: Values) -> Values:
    """Of each step no more than of most that are like it: in others, something else ran."""
    count = steps.sum(np.ones_like(steps.step))
    alike = group_rows(subject.events["name"][steps.rows], count)
    usual = medians(saved, alike.group, len(alike))[alike.group]
    return np.minimum(saved, (_ODD * usual).astype(np.int64))


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
