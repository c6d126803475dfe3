"""Operators of backward passes, and which passes go over one graph again and again."""

from __future__ import annotations

import numpy as np

from opscope.columns.row_groups import group_rows
from opscope.columns.schema import RecordScope
from opscope.findings.subject import EVALUATING, Flags, Subject, Values
from opscope.timeline.tree.links import thread_numbers

_FEWEST_PASSES = 10
"""Over the same forward operators: no training step has as many losses."""


def backward_steps(subject: Subject) -> tuple[Values, Values]:
    """Outermost operators of backward passes, each with the forward operator it is of, or -1."""
    return subject.once(_backward_steps)


def _backward_steps(subject: Subject) -> tuple[Values, Values]:
    backward = subject.events["scope"] == RecordScope.BACKWARD_FUNCTION
    inner = np.flatnonzero(backward & subject.is_main)
    steps, first = np.unique(subject.outermost_operator[inner], return_index=True)
    steps, inner = steps[steps >= 0].astype(np.int64), inner[first[steps >= 0]]
    source = subject.sites.source[inner].astype(np.int64)
    # What has no forward operator stands for itself, or for what evaluates it.
    evaluating = subject.name_contains(EVALUATING)
    known = (source >= 0) & ~evaluating[source] & ~subject.within(evaluating)[source]
    return steps, np.where(known, source, _making(subject, inner))


def _making(subject: Subject, backward: Values) -> Values:
    """The forward operator in which the node of each was made, by its number; -1 for none.

    An operator that writes to a part of a tensor makes one node for itself and a second one, with
    the number that follows, for the tensor that it changed: CopySlices, which is of no other.
    """
    events, numbers = subject.events, subject.events["sequence_number"]
    forward = subject.is_operator & (numbers >= 0) & ~subject.name_contains(EVALUATING)
    rows = np.flatnonzero(forward & (events["scope"] == RecordScope.FUNCTION))
    result = np.full(len(backward), -1, dtype=np.int64)
    own_thread = thread_numbers(subject.trace)
    for thread in np.unique(events["forward_thread"][backward]).tolist():
        made = rows[own_thread[rows] == thread]
        wanted = np.flatnonzero((events["forward_thread"][backward] == thread) & (thread > 0))
        if not len(made):
            continue
        # Each node takes the next number, and an operator has that of the first it will make.
        reached, number = np.maximum.accumulate(numbers[made]), numbers[backward[wanted]]
        at = np.searchsorted(reached, number, "right") - 1
        is_of_one = (at >= 0) & (number >= 0) & (number <= reached[-1])
        result[wanted] = np.where(is_of_one, made[at], -1)
    return result


def steps_take_ns(subject: Subject) -> Values:
    """Duration of each backward step, with the work of autograd before it.

    That looks up the node, and frees what the one before kept.
    """
    steps, _ = backward_steps(subject)
    gap, around = np.zeros(len(steps), dtype=np.int64), subject.parent[steps]
    gap[1:] = subject.start_ns[steps[1:]] - subject.end_ns[steps[:-1]]
    gap[1:][(around[1:] != around[:-1]) | (around[1:] < 0)] = 0
    return np.asarray(subject.duration_ns[steps] + np.maximum(gap, 0))


def is_repeated_pass(subject: Subject) -> Flags:
    """Which events are of passes over a graph that many others go over, too. Shape (events,).

    One for each output, as a Jacobian takes row by row, or for each sample: no training steps.
    """
    steps, forward = backward_steps(subject)
    steps, forward = steps[forward >= 0], forward[forward >= 0]
    many = np.bincount(forward)[forward] >= _FEWEST_PASSES
    return subject.flags(steps[many])[subject.outermost_operator]


def has_backward(subject: Subject, rows: Values) -> Flags:
    """Which of these operators a backward one belongs to. Shape as ``rows``."""
    events, backward = subject.events, subject.is_backward
    numbers = events["sequence_number"]
    threads = (events["forward_thread"][backward], thread_numbers(subject.trace)[rows])
    pair = group_rows(np.concatenate(threads), np.concatenate([numbers[backward], numbers[rows]]))
    used = len(pair.group) - len(rows)  # those of the backward pass come first
    return np.asarray(pair.first[pair.group[used:]] < used, dtype=np.bool_)
