"""A bias that batch normalisation takes away again."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.findings.measure import measure_convolution_bias
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.links import forward_backward_links

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_BIAS = 2
"""Position of the bias among a convolution's arguments."""

_TRAINING = 5
"""Position of ``training`` among batch normalisation's arguments."""

_TRUE = ("True", "1")

_NORMALISATION_PASSES = 5
"""Passes over the activations in batch normalisation's backward: it reads input and gradient twice,
and writes one gradient. The gradient of a bias takes one more, reading the gradient."""


def _find(subject: Subject) -> Evidence | None:
    biased = _with_bias(subject)
    follower = _next_operator(subject, biased)
    # nn.BatchNorm counts its batches in between.
    counting = (follower >= 0) & subject.named("aten::add_")[follower]
    follower = np.where(counting, _next_operator(subject, follower), follower)
    known = follower >= 0
    normalised = _of_batches(subject)[follower] & known
    rows, norms = biased[normalised], follower[normalised]
    if not len(rows):
        return None
    backward = _normalisation_backward(subject, norms)
    saved = backward // _NORMALISATION_PASSES if backward else None
    return Evidence(
        events=rows,
        time_ns=int(subject.duration_ns[rows].sum()),
        explanation=(
            f"{len(rows):,} convolutions added a bias, and batch normalisation, called right "
            "after, subtracted it again with the mean. The result does not depend on it; its "
            "parameters, their gradients and the optimizer's work on them are for nothing."
        ),
        saved_ns=saved,
        saved_by=(
            f"a fifth of batch normalisation's backward ({time_text(backward)}): the gradient of "
            "a bias reads the activations' gradient once, where that takes five passes"
            if saved is not None
            else "no backward pass was recorded; in inference, fold the two instead"
        ),
    )


def _of_batches(subject: Subject) -> Flags:
    """Batch normalisations that subtract the mean of their batch, as they do in training.

    In evaluation it is the running mean, which is the same whatever the bias is. Where the argument
    was not recorded, one that has a backward pass is taken for one in training.
    """
    argument = subject.scalar_argument(_TRAINING)
    values, names = subject.trace.table("scalars")["value"], subject.trace.names
    value = np.where(argument >= 0, values[argument], -1) if len(values) else argument
    said = np.unique(value[value >= 0]).tolist()
    true = [row for row in said if names[row] in _TRUE]
    has_backward: Flags = np.zeros(len(argument), dtype=np.bool_)
    has_backward[_backward_nodes(subject)[1]] = True
    in_training = np.where(argument >= 0, np.isin(value, true), has_backward)
    return np.asarray(subject.named("aten::batch_norm") & in_training)


def _with_bias(subject: Subject) -> Values:
    """Convolutions with one; files that do not tell tensors apart say what sizes it has."""
    bias, tensors = subject.tensor_argument(_BIAS), subject.trace.table("tensors")
    defined = bias >= 0
    if len(tensors):
        has_sizes = np.diff(tensors.lists("sizes").offsets) > 0
        is_there = tensors["impl"] != 0 if tensors["impl"].any() else has_sizes
        defined &= is_there[bias]
    return np.flatnonzero(subject.named(*_CONVOLUTIONS) & defined)


def _next_operator(subject: Subject, rows: Values) -> Values:
    """The operator at the same level that its thread began next, -1 for none."""
    order = _siblings_in_order(subject)
    position = np.full(len(subject.parent), -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    after = position[rows] + 1
    follower = order[np.minimum(after, len(order) - 1)] if len(order) else after
    same = (after < len(order)) & (
        subject.operator_parent[follower] == subject.operator_parent[rows]
    )
    same &= subject.events["thread"][follower] == subject.events["thread"][rows]
    return np.where(same, follower, -1)


def _siblings_in_order(subject: Subject) -> Values:
    """All operators: those of one thread and operator together, in order of start."""
    rows = np.flatnonzero(subject.is_operator)
    return rows[np.lexsort((rows, subject.operator_parent[rows], subject.events["thread"][rows]))]


def _normalisation_backward(subject: Subject, norms: Values) -> int:
    """Time of the backward nodes of the given normalisations."""
    nodes, norm = _backward_nodes(subject)
    return int(subject.duration_ns[nodes[np.isin(norm, norms)]].sum())


def _backward_nodes(subject: Subject) -> tuple[Values, Values]:
    """The backward nodes of batch normalisations, and the normalisation of each."""
    is_norm = subject.named("aten::batch_norm")
    links = forward_backward_links(subject.trace)
    around = np.where(is_norm, np.arange(len(is_norm)), subject.inside(is_norm))
    norm = around[links.source]
    return links.target[norm >= 0], norm[norm >= 0]


CONVOLUTION_BIAS = Pattern(
    id="convolution-bias-before-batch-norm",
    title="Convolutions have a bias that batch normalisation removes",
    advice="Make these convolutions with bias=False.",
    find=_find,
    needs=(Needs.SHAPES,),
    measure=measure_convolution_bias,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm",
)
