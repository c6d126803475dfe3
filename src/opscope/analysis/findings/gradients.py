"""Gradients that are recorded for nothing, and a debugging aid that was left on."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import bytes_text, share_text
from opscope.trace.schema import AllocationAction, RecordScope
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.links import thread_numbers

_WORTH_SAYING, _FEWEST = 0.02, 16
NODE_NS = 3_000
"""What making a node of the graph takes, and taking it down again."""

_NANOSECONDS_PER_BYTE = 0.12
"""Of a page that is touched for the first time: memory kept for the backward pass is not reused."""

_TRACEBACKS = ("format_stack", "extract_stack", "walk_stack")


def _find_inference(subject: Subject) -> Evidence | None:
    rows = _without_backward(subject)
    if len(rows) < _FEWEST:
        return None
    took = subject.duration_ns[rows]
    kept = _allocated_bytes(subject, rows)
    nodes = int(len(rows) * NODE_NS * subject.stretch)
    saved = nodes + int(kept * _NANOSECONDS_PER_BYTE * subject.stretch)
    saved = min(saved, int(took.sum()) // 2 + nodes)
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(rows):,} operators were recorded by autograd for a backward pass that did not "
            f"come. Their results, {bytes_text(kept)}, were kept for it, so that memory could not "
            "be used again."
        ),
        saved_ns=saved,
        saved_by=(
            "a node of the graph for each operator, and first writes to the memory that was kept; "
            "an estimate by rule of thumb, as nothing in the recording separates it"
        ),
    )


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
    _, group = np.unique(np.stack([frame[rows], line[rows]]), axis=1, return_inverse=True)
    group = group.reshape(-1)
    by_line = np.bincount(group, weights=has)
    unused = np.bincount(group) - by_line
    return np.asarray(rows[(by_line[group] == 0) & (unused[group] > 0) & ~has], dtype=np.int64)


def has_backward(subject: Subject, rows: Values) -> Flags:
    """Which of these operators a backward one belongs to."""
    events = subject.events
    backward = subject.is_operator & (events["scope"] == RecordScope.BACKWARD_FUNCTION)
    numbers = events["sequence_number"]
    used = np.stack([events["forward_thread"][backward], numbers[backward]]).astype(np.int64)
    asked = np.stack([thread_numbers(subject.trace)[rows], numbers[rows]]).astype(np.int64)
    _, pair = np.unique(np.concatenate([used, asked], axis=1), axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    return np.isin(pair[used.shape[1] :], pair[: used.shape[1]])


def _allocated_bytes(subject: Subject, rows: Values) -> int:
    table = subject.trace.table("allocations")
    wanted = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    wanted[rows] = True
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    around = subject.outermost_operator[table["event"]]
    return int(table["size_bytes"][taken & wanted[around]].sum())


def _find_anomaly(subject: Subject) -> Evidence | None:
    """Python's stack written down inside operators: what anomaly detection does for each node."""
    noting = subject.named_like(*_TRACEBACKS)
    noting &= subject.operator_parent >= 0
    rows = np.flatnonzero(noting & (subject.inside(noting) < 0))
    if len(rows) < _FEWEST:
        return None
    took = subject.duration_ns[rows]
    checks = np.flatnonzero(
        subject.named("aten::isnan", "aten::any", "aten::isfinite", "aten::ne")
        & (nearest_ancestor(subject.parent, subject.is_training) >= 0)
    )
    outermost = checks[~np.isin(subject.operator_parent[checks], checks)]
    total = int(took.sum()) + int(subject.duration_ns[outermost].sum())
    switch = np.flatnonzero(subject.named_like("anomaly_mode.py(") & subject.sites.called_here)
    places = subject.sites.places(switch, np.ones(len(switch), dtype=np.int64))
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"Anomaly detection is on: {len(rows):,} operators wrote down Python's stack when they "
            "were called, and every gradient was looked through for NaN, "
            f"{share_text(total / subject.wall_ns)} of the time."
        ),
        saved_ns=total,
        saved_by="writing down stacks, and looking through gradients",
        places=places,
    )


GRADIENTS_IN_INFERENCE = Pattern(
    id="gradients-in-inference",
    title="Gradients are recorded that nobody asks for",
    advice="Put inference and validation in `with torch.inference_mode():` (or torch.no_grad()).",
    find=_find_inference,
    needs=(Needs.SHAPES, Needs.MEMORY),
)

ANOMALY_DETECTION = Pattern(
    id="anomaly-detection",
    title="Autograd's anomaly detection is on",
    advice="Switch torch.autograd.set_detect_anomaly on only to find where a NaN comes from.",
    find=_find_anomaly,
    needs=(Needs.STACKS,),
)
