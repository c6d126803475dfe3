"""Recurrent layers of torch's, which go over a whole sequence in one call."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import FLOPS_A_NS, Flags, Subject, Values
from opscope.trace.schema import Role
from opscope.trace.shapes import element_counts

_LAYERS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_INPUT, _PARAMETERS = 0, 2
"""Positions of their arguments."""


def is_recurrent_layer(subject: Subject) -> Flags:
    """Which operators are such layers. Shape (events,)."""
    return subject.named(*_LAYERS) & (subject.operator_parent < 0)


def layers_take_ns(subject: Subject) -> Values:
    """What the products of each such layer take; 0 for other events. Shape (events,).

    All that a call of it takes beyond that, it takes once for a whole sequence.
    """
    tensors, layers = subject.trace.table("tensors"), is_recurrent_layer(subject)
    took = np.zeros(len(subject.parent), dtype=np.int64)
    given = np.flatnonzero(layers[tensors["event"]] & (tensors["role"] == Role.INPUT))
    if not len(given):
        return took
    sizes = tensors.lists("sizes")
    count, length = element_counts(sizes)[given], np.diff(sizes.offsets)[given]
    event, argument = tensors["event"][given], tensors["argument"][given]
    is_matrix = (argument == _PARAMETERS) & (length == 2)
    weights = np.bincount(event[is_matrix], weights=count[is_matrix], minlength=len(took))
    is_input = (argument == _INPUT) & (length > 0)
    width = sizes.values[sizes.offsets[given[is_input] + 1] - 1]
    rows = np.zeros(len(took), dtype=np.int64)
    rows[event[is_input]] = count[is_input] // np.maximum(width, 1)
    flops = 2 * rows * weights
    return (flops / FLOPS_A_NS).astype(np.int64)
