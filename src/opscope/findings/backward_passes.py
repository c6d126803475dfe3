"""Operators of backward passes, and backward passes that run over one graph many times."""

from __future__ import annotations

import numpy as np

from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import RecordScope
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.links import thread_numbers

_FEWEST_PASSES = 10  # passes over the same forward operators; no training step has this many losses


def backward_steps(subject: Subject) -> tuple[Values, Values]:
    """Outermost operators of backward passes, and the forward operator of each, -1 for none."""
    return subject.once(_backward_steps)


def _backward_steps(subject: Subject) -> tuple[Values, Values]:
    backward = subject.events["scope"] == RecordScope.BACKWARD_FUNCTION
    inner = np.flatnonzero(backward & subject.is_main)
    steps, first = np.unique(subject.outermost_operator[inner], return_index=True)
    steps, inner = steps[steps >= 0].astype(np.int64), inner[first[steps >= 0]]
    source = subject.sites.source[inner].astype(np.int64)
    # Without a forward operator, ``source`` is the event itself or the engine's span around it.
    evaluating = subject.name_contains(ENGINE_PREFIX)
    known = (source >= 0) & ~evaluating[source] & ~subject.within(evaluating)[source]
    return steps, np.where(known, source, _making(subject, inner))


def _making(subject: Subject, backward: Values) -> Values:
    """Forward operator that made the node of each backward event, by its number; -1 for none.

    An operator that writes to a part of a tensor makes two nodes: its own and, with the next
    number, CopySlices for the changed tensor. No operator has CopySlices' number.
    """
    events, numbers = subject.events, subject.events["sequence_number"]
    forward = subject.is_operator & (numbers >= 0) & ~subject.name_contains(ENGINE_PREFIX)
    rows = np.flatnonzero(forward & (events["scope"] == RecordScope.FUNCTION))
    result = np.full(len(backward), -1, dtype=np.int64)
    own_thread = thread_numbers(subject.trace)
    for thread in np.unique(events["forward_thread"][backward]).tolist():
        made = rows[own_thread[rows] == thread]
        wanted = np.flatnonzero((events["forward_thread"][backward] == thread) & (thread > 0))
        if not len(made):
            continue
        # Each node takes the next number; an operator has the number of its first node.
        reached, number = np.maximum.accumulate(numbers[made]), numbers[backward[wanted]]
        at = np.searchsorted(reached, number, "right") - 1
        is_of_one = (at >= 0) & (number >= 0) & (number <= reached[-1])
        result[wanted] = np.where(is_of_one, made[at], -1)
    return result


def steps_take_ns(subject: Subject) -> Values:
    """Duration of each backward step, with autograd's work before it: look-up and freeing."""
    steps, _ = backward_steps(subject)
    gap, around = np.zeros(len(steps), dtype=np.int64), subject.parent[steps]
    gap[1:] = subject.start_ns[steps[1:]] - subject.end_ns[steps[:-1]]
    gap[1:][(around[1:] != around[:-1]) | (around[1:] < 0)] = 0
    return np.asarray(subject.duration_ns[steps] + np.maximum(gap, 0))


def is_repeated_pass(subject: Subject) -> Flags:
    """Which events belong to backward passes that repeat over one graph. Shape (events,).

    Such a pass computes one output (a row of a Jacobian) or one sample; it is no training step.
    """
    steps, forward = backward_steps(subject)
    steps, forward = steps[forward >= 0], forward[forward >= 0]
    many = np.bincount(forward)[forward] >= _FEWEST_PASSES
    return subject.flags(steps[many])[subject.outermost_operator]


def has_backward(subject: Subject, rows: Values) -> Flags:
    """Which of these operators have a backward operator. Shape as ``rows``."""
    events, backward = subject.events, subject.is_backward
    numbers = events["sequence_number"]
    threads = (events["forward_thread"][backward], thread_numbers(subject.trace)[rows])
    pair = group_rows(np.concatenate(threads), np.concatenate([numbers[backward], numbers[rows]]))
    used = len(pair.group) - len(rows)  # groups of backward operators come first
    return np.asarray(pair.first[pair.group[used:]] < used, dtype=np.bool_)
