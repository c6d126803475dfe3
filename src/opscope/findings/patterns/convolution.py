"""Convolutions with a bias that batch normalisation removes."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.findings.benchmark import measure_convolution_bias
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.links import forward_backward_links

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_BIAS = 2  # position of the bias among a convolution's arguments
_TRAINING = 5  # position of ``training`` among batch normalisation's arguments
_TRUE = ("True", "1")

_NORMALISATION_PASSES = 5
"""Passes over the activations in batch normalisation's backward: it reads input and gradient twice,
and writes one gradient. The gradient of a bias takes one more, reading the gradient."""


def _find(subject: Subject) -> Evidence | None:
    follower = _following(subject)
    rows = _with_bias(subject)
    norms = follower[rows]
    # nn.BatchNorm counts batches with an add_ in between.
    counting = subject.named("aten::add_")
    norms = np.where(counting[norms], follower[norms], norms)
    normalised = (norms >= 0) & _of_batches(subject)[norms]
    rows, norms = rows[normalised], norms[normalised]
    if not len(rows):
        return None
    nodes, norm = _backward_nodes(subject)
    backward = subject.time_ns(nodes[np.isin(norm, norms)])
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} convolutions add a bias, and the batch normalisation right after "
            "subtracts it again with the mean. The bias has no effect on the result, but costs "
            "parameters, gradients and optimizer work."
        ),
        saved_ns=backward // _NORMALISATION_PASSES if backward else None,
        saved_by=(
            f"a fifth of batch normalisation's backward ({time_text(backward)}): the gradient "
            "of a bias is one pass over the activations' gradient, batch normalisation takes "
            "five"
            if backward
            else "no backward pass was recorded; for inference, fold both layers into one"
        ),
    )


def _of_batches(subject: Subject) -> Flags:
    """Batch normalisations in training, which subtract the mean of the batch.

    In evaluation they subtract the running mean, so the bias has an effect. If the argument was not
    recorded, a backward pass means training.
    """
    said, names = subject.scalar_argument(_TRAINING), subject.trace.names
    true = [row for row in np.unique(said[said >= 0]).tolist() if names[row] in _TRUE]
    has_backward = subject.flags(_backward_nodes(subject)[1])[:-1]
    in_training = np.where(said >= 0, np.isin(said, true), has_backward)
    return np.asarray(subject.named("aten::batch_norm") & in_training)


def _with_bias(subject: Subject) -> Values:
    """Convolutions with a bias; files without tensor identity only have its sizes."""
    bias, tensors = subject.tensor_argument(_BIAS), subject.trace.table("tensors")
    defined = bias >= 0
    if len(tensors):
        has_sizes = np.diff(tensors.lists("sizes").offsets) > 0
        is_there = tensors["impl"] != 0 if tensors["impl"].any() else has_sizes
        defined &= is_there[bias]
    return np.flatnonzero(subject.named(*_CONVOLUTIONS) & defined)


def _following(subject: Subject) -> Values:
    """Next operator at the same level of the same thread, for each operator; -1 for none.

    Shape (events + 1,): the last is for row -1.
    """
    parent, thread = subject.operator_parent, subject.events["thread"]
    rows = np.flatnonzero(subject.is_operator)
    rows = rows[np.lexsort((rows, parent[rows], thread[rows]))]
    same = (np.diff(parent[rows]) == 0) & (np.diff(thread[rows]) == 0)
    result = np.full(len(parent) + 1, -1, dtype=np.int64)
    result[rows[:-1][same]] = rows[1:][same]
    return result


def _backward_nodes(subject: Subject) -> tuple[Values, Values]:
    """The backward nodes of batch normalisations, and the normalisation of each."""
    is_norm = subject.named("aten::batch_norm")
    links = forward_backward_links(subject.trace)
    norm = np.where(is_norm, np.arange(len(is_norm)), subject.inside(is_norm))[links.source]
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
