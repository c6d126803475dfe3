"""Gradients that are recorded for nothing, and a debugging aid that was left on."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text, share_text
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import AllocationAction, RecordScope
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.event_tree import nearest_ancestor
from opscope.timeline.tree.links import forward_backward_links, thread_numbers

_WORTH_SAYING, _FEWEST = 0.005, 16
_NODE_NS = 1_500
"""What making a node of the graph takes, and taking it down again: 770 to 1,070 where caches are
warm, and up to twice that in programs."""

_NANOSECONDS_PER_BYTE = 0.12
"""Of a page that is touched for the first time: memory kept for the backward pass is not reused."""

_QUICKER_PERCENT = 25
_VIEWS = tuple(
    f"aten::{name}"
    for name in (
        "t", "transpose", "permute", "view", "_unsafe_view", "expand", "as_strided", "select",
        "slice", "squeeze", "unsqueeze", "unbind", "split", "alias", "diagonal",
    )
)  # fmt: skip


def _find_inference(subject: Subject) -> Evidence | None:
    rows = _without_backward(subject)
    if len(rows) < _FEWEST:
        return None
    took = subject.duration_ns[rows]
    kept = _allocated_bytes(subject, rows)
    nodes = _nodes(subject, rows) * _NODE_NS
    writes = int(kept * _NANOSECONDS_PER_BYTE)
    saved = nodes + min(writes, int(took.sum()) // 2)
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(rows):,} operators were recorded by autograd for a backward pass that did not "
            f"come. Their results, {bytes_text(kept)} in all, were kept for it, and memory could "
            "not be used again meanwhile."
        ),
        saved_ns=saved,
        saved_by=(
            "about the nodes of the graph that were made, and first writes to the memory that was "
            "kept, by rule of thumb, as nothing in the recording separates it"
        ),
    )


def _nodes(subject: Subject, rows: Values) -> int:
    """How many nodes of the graph operators made: each takes a number of its thread."""
    is_row = np.zeros(len(subject.parent), dtype=np.bool_)
    is_row[rows] = True
    inside = is_row | (nearest_ancestor(subject.parent, is_row) >= 0)
    events = subject.events
    makers = np.flatnonzero(inside & subject.is_operator & (events["sequence_number"] >= 0))
    return len(group_rows(events["thread"][makers], events["sequence_number"][makers]).count)


def _without_backward(subject: Subject) -> Values:
    """Operators with gradients switched on, at lines none of whose calls had a backward pass."""
    events, tensors = subject.events, subject.trace.table("tensors")
    wants = np.zeros(len(events), dtype=np.bool_)
    wants[tensors["event"][tensors["requires_grad"]]] = True
    forward = wants & (events["sequence_number"] >= 0) & subject.is_operator
    forward &= (subject.operator_parent < 0) & (events["scope"] == RecordScope.FUNCTION)
    forward &= nearest_ancestor(subject.parent, subject.is_training) < 0
    rows = np.flatnonzero(forward)
    backward = subject.is_operator & (events["scope"] == RecordScope.BACKWARD_FUNCTION)
    if not backward.any() or not len(rows):
        return np.asarray(rows, dtype=np.int64)
    # An operator may make several nodes; and one may be the graph's last before a detach.
    has = has_backward(subject, rows)
    every = np.arange(len(events))
    frame, line = subject.sites.at if subject.sites.known else (every, every)
    group = group_rows(frame[rows], line[rows]).group
    by_line = np.bincount(group, weights=has)
    unused = np.bincount(group) - by_line
    return np.asarray(rows[(by_line[group] == 0) & (unused[group] > 0) & ~has], dtype=np.int64)


def has_backward(subject: Subject, rows: Values) -> Flags:
    """Which of these operators a backward one belongs to."""
    events = subject.events
    backward = subject.is_operator & (events["scope"] == RecordScope.BACKWARD_FUNCTION)
    numbers = events["sequence_number"]
    threads = (events["forward_thread"][backward], thread_numbers(subject.trace)[rows])
    pair = group_rows(np.concatenate(threads), np.concatenate([numbers[backward], numbers[rows]]))
    used = len(pair.group) - len(rows)
    # Those that are used stand first.
    return np.asarray(pair.first[pair.group[used:]] < used, dtype=np.bool_)


def _allocated_bytes(subject: Subject, rows: Values) -> int:
    table = subject.trace.table("allocations")
    wanted = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    wanted[rows] = True
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    around = subject.outermost_operator[table["event"]]
    return int(table["size_bytes"][taken & wanted[around]].sum())


def _find_anomaly(subject: Subject) -> Evidence | None:
    """Gradients looked through for NaN in a backward pass, and what is written down for each node.

    Python's stack is written down inside each operator that autograd makes a node for.
    """
    node = subject.named_like("autograd::engine::evaluate_function: ")
    checks = np.flatnonzero(
        subject.named("aten::isnan", "aten::_is_any_true", "aten::item")
        & (nearest_ancestor(subject.parent, node) >= 0)
    )
    checks = checks[~np.isin(subject.operator_parent[checks], checks)]
    gradients = int(subject.named("aten::isnan")[checks].sum())
    if gradients < _FEWEST:
        return None
    took = subject.duration_ns[checks]
    total = int(took.sum()) + _writing_stacks_ns(subject)
    switch = np.flatnonzero(subject.named_like("anomaly_mode.py(") & subject.sites.called_here)
    return Evidence(
        events=checks,
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"Anomaly detection is on: {gradients:,} gradients were looked through for NaN, and "
            "every operator that has a gradient wrote down Python's stack, "
            f"{share_text(total / subject.wall_ns)} of the time."
        ),
        saved_ns=total,
        saved_by=(
            "about what looking through gradients took, and for each operator that has one what "
            "those take that only look at memory anew"
        ),
        places=subject.sites.places(switch, np.ones(len(switch), dtype=np.int64)),
    )


def _writing_stacks_ns(subject: Subject) -> int:
    """Of operators that a node was made for, what those take that only look at memory anew.

    They compute nothing, so that it is writing; without any, the quicker quarter of all. Operators
    in one another share the number of the node that the innermost makes.
    """
    source = forward_backward_links(subject.trace).source
    if not len(source):
        return 0
    forward = subject.is_operator & (subject.events["scope"] == RecordScope.FUNCTION)
    number = np.where(forward, subject.events["sequence_number"], -1).astype(np.int64)
    known, position = np.unique(number[source], return_inverse=True)
    at = np.minimum(np.searchsorted(known, number), len(known) - 1)
    inside = forward & (known[at] == number)
    by_number = np.bincount(
        at[inside], weights=subject.operator_self_ns[inside], minlength=len(known)
    )
    took = by_number[position.reshape(-1)]
    views = took[subject.named(*_VIEWS)[source]]
    each = np.median(views) if len(views) else np.percentile(took, _QUICKER_PERCENT)
    return int(np.minimum(took, each).sum())


GRADIENTS_IN_INFERENCE = Pattern(
    id="gradients-in-inference",
    title="Gradients are recorded that nobody asks for",
    advice="Put inference and validation in `with torch.inference_mode():` (or torch.no_grad()).",
    find=_find_inference,
    needs=(Needs.SHAPES, Needs.MEMORY),
)

ANOMALY_DETECTION = Pattern(
    id="anomaly-detection",
    status=Status.PYTHON,
    title="Autograd's anomaly detection is on",
    advice="Switch torch.autograd.set_detect_anomaly on only to find where a NaN comes from.",
    find=_find_anomaly,
    needs=(Needs.STACKS,),
)
