"""Operators of backward passes, and which passes go over one graph again and again."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.trace.schema import RecordScope

_FEWEST_PASSES = 10
"""Over the same forward operators: no training step has as many losses."""

_TAKING = ("aten::select", "aten::slice", "aten::narrow", "aten::unbind")


def backward_steps(subject: Subject) -> tuple[Values, Values]:
    """Outermost operators of backward passes, each with the forward operator it is of, or -1."""
    return subject.once(_backward_steps)


def _backward_steps(subject: Subject) -> tuple[Values, Values]:
    inner = np.flatnonzero(
        (subject.events["scope"] == RecordScope.BACKWARD_FUNCTION) & subject.is_main
    )
    steps, first = np.unique(subject.outermost_operator[inner], return_index=True)
    known = steps >= 0
    return steps[known].astype(np.int64), subject.sites.source[inner[first[known]]].astype(np.int64)


def is_repeated_pass(subject: Subject) -> Flags:
    """Which events are of passes over a graph that many others go over, too. Shape (events,).

    One for each output, as a Jacobian takes row by row, or for each sample: no training steps.
    """
    again = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    steps, forward = backward_steps(subject)
    # What stores a gradient is of no forward operator: it follows the one that made it.
    last = np.maximum.accumulate(np.where(forward >= 0, np.arange(len(steps)), -1))
    steps, forward = steps[last >= 0], forward[last[last >= 0]]
    passes = np.bincount(forward, minlength=1)[forward]
    # Each pass begins where its output is taken out of all: that alone is new.
    taking = subject.named(*_TAKING)[forward] & (passes < _FEWEST_PASSES)
    after = np.where(taking, len(steps), np.arange(len(steps)))
    after = np.minimum.accumulate(after[::-1])[::-1]
    again[steps[np.append(passes >= _FEWEST_PASSES, False)[after]]] = True
    return np.asarray(again[subject.outermost_operator])
