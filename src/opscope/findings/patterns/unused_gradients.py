"""Gradients that are computed but never read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import AllocationAction, RecordScope
from opscope.findings.backward_passes import backward_steps, steps_take_ns
from opscope.findings.pattern import TENSORS, Evidence, Pattern
from opscope.findings.repeated_values import GIVEN
from opscope.findings.subject import VIEWS, Flags, Subject, Values

_FEWEST = 10
_STORING, _STORES = "AccumulateGrad", ("aten::detach", "aten::add_")
"""Node that stores gradients, and its operators; if it stores a copy, the memory is unknown."""

_CLEARING = ("aten::zero_", "aten::_foreach_zero_")
_OF_FROZEN = (
    "Call requires_grad_(False) on this network, or run it in `with torch.no_grad():`: no "
    "optimizer has its parameters."
)
_MOSTLY = 0.5
_DEPTH = 256  # longest chain of operators in a backward pass that is followed


@dataclass(frozen=True)
class _Uses:
    """Uses of memory as arguments, in order of memory, then of time.

    Attributes:
        memory: number of the allocation.
        by: the user: an operator inside a backward node, else the outermost operator.
        stores: the use stores a gradient, or adds to one.
        clears: the use fills it with zeros.
        sums: the use adds the gradient of another path to it, in a backward pass.
    """

    memory: Values
    by: Values
    stores: Flags
    clears: Flags
    sums: Flags


def _find(subject: Subject) -> Evidence | None:
    # Only direct children: a hook of the program at this node may read the gradient.
    node = np.append(subject.name_contains(_STORING), False)[subject.parent]
    storing = node & subject.named(*_STORES)
    if not storing.any():
        return None
    part, tensors = _parts(subject), subject.trace.table("tensors")
    stored = tensors["allocation_id"][storing[tensors["event"]]]
    uses = _uses(subject, part, storing, np.isin(tensors["allocation_id"], stored))
    wasted = _wasted(subject, uses)
    if not wasted.any():
        return None
    lost = np.setdiff1d(uses.by[wasted], uses.by[uses.stores & ~wasted])
    every = np.ones(len(tensors), dtype=np.bool_)
    useless = _useless(subject, part, _uses(subject, part, storing, every), lost)
    steps, forward = backward_steps(subject)
    # A step disappears entirely if all that it computes is unused.
    own = (part == np.arange(len(part))) & ~subject.named(*VIEWS)
    of_these = subject.sums(own & useless)[steps]
    inside = subject.sums(np.where(own & useless, subject.duration_ns, 0))[steps]
    of_all = subject.sums(own)[steps]
    going, whole = of_these > 0, (of_these > 0) & (of_these == of_all)
    took = np.where(whole, steps_take_ns(subject), inside)
    if going.sum() < _FEWEST:
        return None
    called = going & (forward >= 0)
    # Gradients that are added to in every step and never cleared belong to no optimizer.
    _, times = np.unique(
        uses.memory[wasted & ~np.isin(uses.memory, uses.memory[uses.clears])], return_counts=True
    )
    return Evidence(
        events=steps[going],
        event_time_ns=took[going],
        explanation=(
            f"{len(lost):,} gradients of parameters were computed but never read: "
            f"{int(whole.sum()):,} steps of backward passes have no other use, "
            f"{subject.share(took.sum())} of the time."
        ),
        saved_ns=int(took.sum()),
        saved_by="the parts of backward passes that only lead to these gradients",
        places=subject.sites.places(
            _networks(subject, forward[called], forward[~going & (of_all > 0)]), took[called]
        ),
        advice=_OF_FROZEN if times[times > 1].sum() > _MOSTLY * wasted.sum() else "",
    )


def _networks(subject: Subject, unused: Values, used: Values) -> Values:
    """For each operator with unused gradients, the outermost call of a module with nothing else."""
    has_unused, has_used = (
        subject.sums(subject.flags(rows[rows >= 0])[:-1]) > 0 for rows in (unused, used)
    )
    alone = subject.is_module_call & has_unused & ~has_used
    around = subject.inside(subject.outermost_of(alone))[unused]
    return np.where(around >= 0, around, unused)


def _parts(subject: Subject) -> Values:
    """Operator directly inside a graph node that each event is, or is inside of; -1 for none."""
    runs = subject.is_backward | subject.name_contains(ENGINE_PREFIX)
    own = subject.is_operator & ~runs & np.append(runs, False)[subject.operator_parent]
    return np.where(own, np.arange(len(own)), subject.inside(own)).astype(np.int64)


def _uses(subject: Subject, part: Values, storing: Flags, of: Flags) -> _Uses:
    """Uses of the memory of tensor rows ``of``; backward nodes and views only pass memory on."""
    tensors = subject.trace.table("tensors")
    passes = subject.events["scope"] == RecordScope.BACKWARD_FUNCTION
    passes |= subject.named(*VIEWS)
    of = of & (tensors["allocation_id"] >= 0) & np.isin(tensors["role"], GIVEN)
    rows = np.flatnonzero(of)
    event, memory = (tensors[name][rows].astype(np.int64) for name in ("event", "allocation_id"))
    by = np.where(part[event] >= 0, part[event], subject.outermost_operator[event])
    known = (by >= 0) & ~passes[event]
    rows, memory, by = rows[known], memory[known], by[known]
    order = order_rows(memory, by)
    rows, memory, by = rows[order], memory[order], by[order]
    is_first = tensors["argument"][rows] == 0
    sums = subject.named("aten::add_")[by] & (part[by] == by) & ~storing[by] & is_first
    return _Uses(memory, by, storing[by] & is_first, subject.named(*_CLEARING)[by], sums)


def _wasted(subject: Subject, uses: _Uses) -> Flags:
    """Which uses store a gradient that nothing reads before it is cleared or freed. Shape (uses,).

    Only in passes that also store gradients that are read: a benchmark of both passes reads none.
    """
    same, at = group_rows(uses.memory), np.arange(len(uses.memory))
    first = np.full(len(same), len(at))
    np.minimum.at(first, same.group[uses.stores], at[uses.stores])
    reads = ~uses.stores & ~uses.clears & (at > first[same.group])
    never = np.bincount(same.group, weights=reads, minlength=len(same)) == 0
    again = np.bincount(same.group, weights=uses.stores, minlength=len(same)) > 1
    # The next use that does not store decides what happens to the gradient.
    following = np.minimum.accumulate(np.where(uses.stores, len(at), at)[::-1])[::-1]
    within = np.append(same.group, -1)[following] == same.group
    table = subject.trace.table("allocations")
    freed = table["allocation_id"][table["action"] == AllocationAction.FREE]
    lost = np.isin(uses.memory, freed) | (never & again)[same.group]
    cleared = within & np.append(uses.clears, False)[following]
    wasted = uses.stores & (cleared | (~within & lost))
    passes = subject.parent[subject.outermost_operator[uses.by]]
    mixed = np.intersect1d(passes[uses.stores & within & ~wasted], passes[wasted])
    return np.asarray(wasted & np.isin(passes, mixed))


def _useless(subject: Subject, part: Values, uses: _Uses, lost: Values) -> Flags:
    """Whether an event only stores ``lost`` gradients or feeds such events. Shape (events,)."""
    table = subject.trace.table("allocations")
    event = table["event"].astype(np.int64)
    made = (table["action"] == AllocationAction.ALLOCATE) & (event >= 0) & (part[event] >= 0)
    rows = np.flatnonzero(made & np.isin(table["allocation_id"], uses.memory))
    rows = rows[np.argsort(table["allocation_id"][rows], kind="stable")]
    memory, maker = table["allocation_id"][rows].astype(np.int64), part[event[rows]]
    # Uses of a part's results by other parts.
    at = np.searchsorted(memory, uses.memory)
    known = np.append(memory, -1)[at] == uses.memory
    known &= np.append(maker, -1)[at] != uses.by
    sums, at_sums = uses.by[known & uses.sums], at[known & uses.sums]
    by, of = uses.by[known & ~uses.sums], at[known & ~uses.sums]
    useless = subject.flags(lost)[:-1]
    needed = np.bincount(of, minlength=len(memory)) > 0
    for _ in range(_DEPTH):
        before = int(useless.sum())
        wanted = np.bincount(of, weights=~useless[by], minlength=len(memory)) > 0
        useless |= (
            subject.flags(maker[needed & ~wanted]) & ~subject.flags(maker[needed & wanted])
        )[:-1]
        useless[sums[(needed & ~wanted)[at_sums]]] = True
        if int(useless.sum()) == before:
            break
    return useless


UNUSED_GRADIENTS = Pattern(
    id="gradients-never-used",
    title="Unused gradients are computed",
    advice=(
        "Stop gradients early: detach() the generator's output for the discriminator step, or "
        "create it under torch.no_grad(). Call requires_grad_(False) on networks that are not "
        "trained, and on parameters without optimizer. For the gradient of one input only, use "
        "torch.autograd.grad()."
    ),
    find=_find,
    needs=TENSORS,
    worth_saying=0.02,
    link="https://pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
)
