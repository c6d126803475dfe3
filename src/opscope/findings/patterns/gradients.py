"""Autograd during inference, and anomaly detection that was left on."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import RecordScope
from opscope.findings.backward_passes import has_backward
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import VIEWS, Subject, Values
from opscope.timeline.tree.links import forward_backward_links

_FEWEST = 16
_NODE_NS = 2_500
"""Time to make and free a node of the graph: 500 to 1,300 with warm caches, and 2,600 in programs,
where it also delays the reuse of results."""

_QUICKER_PERCENT = 25


NO_GRAD = "Put inference and validation in `with torch.inference_mode():` (or torch.no_grad())."


def _find_inference(subject: Subject) -> Evidence | None:
    rows = _without_backward(subject)
    if len(rows) < _FEWEST:
        return None
    kept, called = int(subject.bytes_made[rows].sum()), _calling(subject, rows)
    return Evidence(
        events=rows,
        places=subject.sites.places(called, subject.duration_ns[rows]),
        explanation=(
            f"{len(rows):,} operators were recorded by autograd, but no backward pass followed. "
            f"Autograd kept their results, {bytes_text(kept)} in total, which delays the reuse "
            "of memory."
        ),
        saved_ns=_nodes(subject, rows) * _NODE_NS,
        saved_by=(
            f"the nodes of the autograd graph, about {_NODE_NS / 1e3:g} µs each; earlier reuse "
            "of memory may save more"
        ),
    )


def _nodes(subject: Subject, rows: Values) -> int:
    """Number of graph nodes that operators made: each node takes a number of its thread."""
    is_row, events = subject.flags(rows)[:-1], subject.events
    makers = (is_row | subject.within(is_row)) & subject.is_operator
    makers &= events["sequence_number"] >= 0
    return len(group_rows(events["thread"][makers], events["sequence_number"][makers]))


def _without_backward(subject: Subject) -> Values:
    """Operators with autograd on, at lines without any backward pass.

    In a network, the line that calls it: training and validation share the network's own lines.
    """
    events = subject.events
    forward = subject.wants_gradients & (events["sequence_number"] >= 0) & subject.is_outermost
    forward &= (events["scope"] == RecordScope.FUNCTION) & ~subject.within(subject.is_training)
    rows: Values = np.flatnonzero(forward)
    # What makes no node, as item(), has the number of the node that the next operator makes.
    numbers = np.stack([events["thread"][rows], events["sequence_number"][rows]])
    makes_one = np.append((np.diff(numbers) != 0).any(axis=0), True)[: len(rows)]
    rows = np.asarray(rows[makes_one])
    if not len(rows) or not subject.is_backward.any():
        return rows
    # By line: an operator may make several nodes, or the graph's last one before a detach.
    every = np.arange(len(events))
    frame, line = subject.sites.at if subject.sites.known else (every, every)
    called = _calling(subject, rows)
    group = group_rows(frame[called], line[called]).group
    used = np.bincount(group, weights=has_backward(subject, rows))
    return np.asarray(rows[used[group] == 0])


def _calling(subject: Subject, rows: Values) -> Values:
    """Outermost call of a network around each operator; the operator itself, if its line is not
    known."""
    network = subject.inside(subject.outermost_of(subject.is_module_call))[rows]
    has_line = (network >= 0) & subject.sites.known & (subject.sites.at[1][network] >= 0)
    return np.where(has_line, network, rows)


def _find_anomaly(subject: Subject) -> Evidence | None:
    """Searches for NaN in gradients, and Python stacks stored for each node.

    Autograd stores the stack inside each operator that makes a node.
    """
    looks = subject.named("aten::isnan", "aten::_is_any_true", "aten::item")
    looks &= subject.within(subject.name_contains(ENGINE_PREFIX))
    checks = np.flatnonzero(looks & ~np.append(looks, False)[subject.operator_parent])
    gradients = int(subject.named("aten::isnan")[checks].sum())
    if gradients < _FEWEST:
        return None
    total = subject.time_ns(checks) + _writing_stacks_ns(subject)
    switch = np.flatnonzero(subject.name_contains("anomaly_mode.py(") & subject.sites.called_here)
    return Evidence(
        events=checks,
        time_ns=total,
        explanation=(
            f"Anomaly detection is on: {gradients:,} gradients were searched for NaN, and every "
            f"operator with a gradient stored the Python stack, {subject.share(total)} of the "
            "time."
        ),
        saved_ns=total,
        saved_by=(
            "the search through gradients, and for each operator with a gradient the time of "
            "an operator that only makes a view"
        ),
        places=subject.sites.places(switch, np.ones(len(switch), dtype=np.int64)),
    )


def _writing_stacks_ns(subject: Subject) -> int:
    """Time for storing stacks in operators with a graph node.

    Estimated from operators that only make views, which compute nothing; without any, from the
    quickest quarter of all. Nested operators share the number of the innermost one's node.
    """
    source = forward_backward_links(subject.trace).source
    if not len(source):
        return 0
    forward = subject.is_operator & (subject.events["scope"] == RecordScope.FUNCTION)
    number = np.where(forward, subject.events["sequence_number"], -1).astype(np.int64)
    known, position = np.unique(number[source], return_inverse=True)
    at = np.minimum(np.searchsorted(known, number), len(known) - 1)
    inside = forward & (known[at] == number)
    by_number = np.bincount(at[inside], subject.operator_self_ns[inside], len(known))
    took = by_number[position.reshape(-1)]
    views = took[subject.named(*VIEWS)[source]]
    each = np.median(views) if len(views) else np.percentile(took, _QUICKER_PERCENT)
    return int(np.minimum(took, each).sum())


GRADIENTS_IN_INFERENCE = Pattern(
    id="gradients-in-inference",
    title="Inference runs with autograd on",
    advice=NO_GRAD,
    find=_find_inference,
    needs=(Needs.SHAPES, Needs.MEMORY),
    worth_saying=0.005,
)

ANOMALY_DETECTION = Pattern(
    id="anomaly-detection",
    status=Status.PYTHON,
    title="Autograd's anomaly detection is on",
    advice="Use torch.autograd.set_detect_anomaly only to find the source of a NaN.",
    find=_find_anomaly,
    needs=(Needs.STACKS,),
)
