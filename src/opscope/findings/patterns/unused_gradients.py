"""Gradients that are computed and let go of, or kept for ever, before anything has read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.row_groups import group_rows, order_rows, places_in
from opscope.columns.schema import AllocationAction, RecordScope, Role
from opscope.findings.backward_passes import backward_steps, steps_take_ns
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import EVALUATING, Flags, Subject, Values
from opscope.timeline.tree.event_tree import nearest_ancestor, subtree_sums

_WORTH_SAYING, _FEWEST = 0.02, 10
_STORING, _STORES = "AccumulateGrad", ("aten::detach", "aten::add_")
"""A copy of what it is given keeps that of another tensor, which is not known."""

_CLEARING = ("aten::zero_", "aten::_foreach_zero_")
_VIEWING = tuple(
    f"aten::{name}"
    for name in ("t", "transpose", "permute", "view", "_unsafe_view", "expand", "as_strided",
                 "select", "slice", "squeeze", "unsqueeze", "reshape", "alias")
)  # fmt: skip
"""What only looks at memory anew: what is computed with it has that memory as well."""

_GIVEN = (Role.INPUT, Role.KEYWORD, Role.INPUT_PART)
_DEPTH = 256
"""Of what is computed in a backward pass, one from another."""


@dataclass(frozen=True)
class _Uses:
    """Memory that operators got as arguments, in order of memory and then of time.

    Attributes:
        memory: number of the allocation.
        by: the part of a backward step that got it, or else the outermost operator.
        stores: it was stored as a gradient, or added to one.
        clears: it was filled with zeros.
    """

    memory: Values
    by: Values
    stores: Flags
    clears: Flags


def _find(subject: Subject) -> Evidence | None:
    storing = _storing(subject)
    if not storing.any():
        return None
    part, tensors = _parts(subject), subject.trace.table("tensors")
    stored = np.unique(tensors["allocation_id"][storing[tensors["event"]]])
    uses = _uses(subject, part, storing, np.isin(tensors["allocation_id"], stored))
    wasted = _wasted(subject, uses)
    if not wasted.any():
        return None
    lost = np.setdiff1d(uses.by[wasted], uses.by[uses.stores & ~wasted])
    useless = _useless(subject, part, _uses(subject, part, storing), lost)
    steps, forward = backward_steps(subject)
    going, whole, took = _steps_going(subject, part, useless)
    saved = int(took.sum())
    if going.sum() < _FEWEST or saved < _WORTH_SAYING * subject.wall_ns:
        return None
    called = going & (forward >= 0)
    return Evidence(
        events=steps[going],
        event_time_ns=took[going],
        time_ns=saved,
        explanation=(
            f"{len(lost):,} gradients of parameters were computed, together with others that were "
            "used, and cleared before anything had read them, or never read at all: "
            f"{int(whole.sum()):,} steps of backward passes for nothing else, "
            f"{share_text(saved / subject.wall_ns)} of the time."
        ),
        saved_ns=saved,
        saved_by="what of the backward passes led to these gradients alone",
        places=subject.sites.places(forward[called], took[called]),
    )


def _storing(subject: Subject) -> Flags:
    """Operators that take the first of their arguments as a gradient, or add to it.

    A hook that a program has for that may update the parameter there: that reads the gradient.
    """
    node = subject.named_like(_STORING)[subject.parent] & (subject.parent >= 0)
    return np.asarray(node & subject.named(*_STORES))


def _parts(subject: Subject) -> Values:
    """Of each event the operator that a node of the graph runs and it is, or is in; -1 for none."""
    node = subject.events["scope"] == RecordScope.BACKWARD_FUNCTION
    runs = (node & subject.is_operator) | subject.named_like(EVALUATING)
    own = subject.is_operator & ~runs & np.append(runs, False)[subject.operator_parent]
    above = nearest_ancestor(subject.parent, own)
    return np.where(own, np.arange(len(own)), above).astype(np.int64)


def _uses(subject: Subject, part: Values, storing: Flags, of: Flags | slice = slice(None)) -> _Uses:
    """Of some rows of ``tensors``. What a node is given its operators get, or it hands it on."""
    tensors = subject.trace.table("tensors")
    event = tensors["event"].astype(np.int64)
    wanted = (tensors["allocation_id"] >= 0) & np.isin(tensors["role"], _GIVEN)
    node = subject.events["scope"] == RecordScope.BACKWARD_FUNCTION
    wanted &= ~(node | subject.named(*_VIEWING))[event]
    rows = np.arange(len(event))[of]
    rows = rows[wanted[rows]]
    event, memory = event[rows], tensors["allocation_id"][rows].astype(np.int64)
    by = np.where(part[event] >= 0, part[event], subject.outermost_operator[event])
    known = by >= 0
    order = order_rows(memory[known], by[known])
    memory, by = memory[known][order], by[known][order]
    stored = storing[by] & (tensors["argument"][rows] == 0)[known][order]
    return _Uses(memory, by, stored, subject.named(*_CLEARING)[by])


def _wasted(subject: Subject, uses: _Uses) -> Flags:
    """Which uses store a gradient that nothing reads before it is cleared or freed.

    In passes that store others which are read: else nothing of what was recorded uses any, as in
    a benchmark of forward and backward pass. Shape (uses,).
    """
    same, at = group_rows(uses.memory), np.arange(len(uses.memory))
    first = np.full(len(same), len(at))
    np.minimum.at(first, same.group[uses.stores], at[uses.stores])
    reads = ~uses.stores & ~uses.clears & (at > first[same.group])
    never = np.bincount(same.group, weights=reads, minlength=len(same)) == 0
    again = np.bincount(same.group, weights=uses.stores, minlength=len(same)) > 1
    # The next that is no storing says what becomes of what was stored.
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
    """Those that store what is ``lost``, and what nodes run to make nothing but what these get.

    Shape (events,).
    """
    table = subject.trace.table("allocations")
    event = table["event"].astype(np.int64)
    made = (table["action"] == AllocationAction.ALLOCATE) & (event >= 0) & (part[event] >= 0)
    rows = np.flatnonzero(made & np.isin(table["allocation_id"], uses.memory))
    memory, maker = table["allocation_id"][rows].astype(np.int64), part[event[rows]]
    order = np.argsort(memory, kind="stable")
    memory, maker = memory[order], maker[order]
    at = np.minimum(places_in(memory, uses.memory), max(len(memory) - 1, 0))
    known = (memory[at] == uses.memory) if len(memory) else np.zeros(len(at), dtype=np.bool_)
    known[known] = maker[at[known]] != uses.by[known]
    by, of = uses.by[known], at[known]
    useless = np.zeros(len(subject.parent), dtype=np.bool_)
    useless[lost] = True
    needed = np.bincount(of, minlength=len(memory)) > 0
    for _ in range(_DEPTH):
        before = int(useless.sum())
        wanted = np.bincount(of, weights=~useless[by], minlength=len(memory)) > 0
        makes = np.zeros((2, len(useless)), dtype=np.bool_)
        makes[0, maker[needed & ~wanted]] = True
        makes[1, maker[needed & wanted]] = True
        useless |= makes[0] & ~makes[1]
        if int(useless.sum()) == before:
            break
    return useless


def _steps_going(subject: Subject, part: Values, useless: Flags) -> tuple[Flags, Flags, Values]:
    """Steps of backward passes with useless operators, which have no others, and what that takes.

    A step goes altogether where all that it computes is useless. Shape (backward steps,).
    """
    steps, _ = backward_steps(subject)
    own = (part == np.arange(len(part))) & ~subject.named(*_VIEWING)
    every = subtree_sums(subject.parent, own.astype(np.int64))[steps]
    going = subtree_sums(subject.parent, (own & useless).astype(np.int64))[steps]
    inside = subtree_sums(subject.parent, np.where(own & useless, subject.duration_ns, 0))[steps]
    whole = (going > 0) & (going == every)
    return going > 0, whole, np.where(whole, steps_take_ns(subject), inside)


UNUSED_GRADIENTS = Pattern(
    id="gradients-never-used",
    title="Gradients are computed that nothing uses",
    advice=(
        "Cut the graph where a pass needs no more of it: detach() what the generator made for the "
        "step of its judge, or make it under torch.no_grad(). Call requires_grad_(False) on "
        "networks that a pass only goes through, and on parameters that no optimizer has. Where "
        "one gradient alone is wanted, as of an input, take that with torch.autograd.grad()."
    ),
    find=_find,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
    link="https://pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
)
