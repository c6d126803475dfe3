"""Convolutions with a bias that batch normalisation removes."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.findings.benchmark import measure_convolution_bias
from opscope.findings.pattern import TENSORS, Evidence, Pattern
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import Subject, Values
from opscope.timeline.tree.links import forward_backward_links

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_BIAS = 2  # position of the bias among a convolution's arguments
_TRAINING = 5  # position of ``training`` among batch normalisation's arguments
_TRUE = ("True", "1")

_NORMALISATION_PASSES = 5
"""Passes over the activations in batch normalisation's backward: it reads input and gradient twice,
and writes one gradient. The gradient of a bias takes one more, reading the gradient."""


def _find(subject: Subject) -> Evidence | None:
    rows, norms = _normalised(subject)
    if not len(rows):
        return None
    nodes, norm = _backward_nodes(subject)
    backward = subject.time_ns(nodes[np.isin(norm, norms)])
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} convolutions add a bias, and the batch normalisation of their "
            "results subtracts it again with the mean. The bias has no effect on the result, but "
            "costs parameters, gradients and optimizer work."
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


def _normalised(subject: Subject) -> tuple[Values, Values]:
    """Convolutions with a bias, and the batch normalisation in training that gets each result.

    In evaluation it subtracts the running mean, so the bias has an effect.
    """
    values, bias = computed_values(subject), subject.tensor_argument(_BIAS)
    biased = subject.named(*_CONVOLUTIONS) & (bias >= 0)
    biased &= subject.tensor_column("impl", bias) != 0
    names, said = subject.trace.names, subject.scalar_argument(_TRAINING)
    true = [row for row in np.unique(said[said >= 0]).tolist() if names[row] in _TRUE]
    norms = subject.named("aten::batch_norm") & np.isin(said, true)
    gets = subject.trace.table("tensors")["argument"][values.rows] == 0
    gets &= norms[values.event] & np.append(biased, False)[values.producer]
    return values.producer[gets], values.event[gets]


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
    needs=TENSORS,
    measure=measure_convolution_bias,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-bias-for-convolutions-directly-followed-by-a-batch-norm",
)
