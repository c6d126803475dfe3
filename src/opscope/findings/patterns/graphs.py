"""Autograd graphs that grow, are never used, or are recomputed."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.schema import RecordScope
from opscope.findings.backward_passes import has_backward
from opscope.findings.pattern import Evidence, Needs, Pattern, has_calls_of_libraries
from opscope.findings.status import Status
from opscope.findings.subject import Subject, Values

_WORTH_SAYING, _FEWEST = 0.02, 8
_GROWS, _RISES = 2.0, 0.9
"""Least ratio of the last backward pass to the first; least share of passes that do not shrink."""

_NODE_NS = 3_000  # time that recording a graph node adds to an operator of a backward pass
_CHECKPOINT = "torch/utils/checkpoint.py"


def _find_growing(subject: Subject) -> Evidence | None:
    nodes = np.flatnonzero(subject.name_contains(ENGINE_PREFIX) & subject.is_operator)
    of_pass = _passes(subject, nodes)
    count = np.bincount(of_pass) if len(nodes) else of_pass
    if len(count) < _FEWEST or count[-1] < _GROWS * count[0]:
        return None
    if (np.diff(count) >= 0).mean() < _RISES or (np.diff(count) > 0).mean() < _RISES / 2:
        return None
    first = nodes[np.searchsorted(of_pass, np.arange(len(count)))]
    called_here = subject.sites.called_here
    # If the line calls the nodes directly, the first node stands for the pass.
    asked = np.where(called_here[first], -1, subject.inside(called_here)[first])
    events = np.where(asked >= 0, asked, first)
    took = np.bincount(of_pass, weights=subject.duration_ns[nodes]).astype(np.int64)
    took = np.where(asked >= 0, subject.duration_ns[events], took)
    each = int(np.median(took / count))
    return Evidence(
        events=events,
        event_time_ns=took,
        explanation=(
            f"The autograd graph grows: {count[0]:,} nodes in the first of {len(count):,}, "
            f"{count[-1]:,} in the last. A tensor that one step passes to the next (a hidden "
            "state, a running loss) keeps its whole history, so that every step takes longer "
            "than the previous one."
        ),
        saved_ns=int((took - np.minimum(each * count[0], took)).sum()),
        saved_by=f"all nodes beyond those of the first backward pass, {each / 1e3:.1f} µs each",
    )


def _passes(subject: Subject, nodes: Values) -> Values:
    """Number of the backward pass of each node; a pass ends where the program calls an operator."""
    called = subject.outermost[~np.isin(subject.outermost, nodes)]
    _, number = np.unique(np.searchsorted(called, nodes), return_inverse=True)
    return np.asarray(number.reshape(-1), dtype=np.int64)


def _find_of_gradients(subject: Subject) -> Evidence | None:
    inside = subject.within(subject.name_contains(ENGINE_PREFIX) & subject.is_operator)
    inside &= ~subject.within(subject.calls_of(_CHECKPOINT))
    made = inside & subject.is_operator & subject.wants_gradients
    made &= subject.events["sequence_number"] >= 0
    rows = np.flatnonzero(made & (subject.events["scope"] == RecordScope.FUNCTION))
    # Any second backward pass over them uses the graph.
    if len(rows) < _FEWEST or has_backward(subject, rows).any():
        return None
    asked = subject.inside(subject.sites.called_here)[rows]
    passes = np.unique(asked[asked >= 0])
    return Evidence(
        events=passes if len(passes) else rows,
        explanation=(
            f"{len(rows):,} operators of backward passes were recorded by autograd for second "
            "derivatives, which the program does not compute. Their inputs are kept as well."
        ),
        saved_ns=len(rows) * _NODE_NS // 2,
        saved_by="half a node of the autograd graph for each, as many only make views; a rough "
        "estimate",
    )


def _find_recomputation(subject: Subject) -> Evidence | None:
    inside = subject.within(subject.name_contains(ENGINE_PREFIX) & subject.is_operator)
    # Without library calls, a module call in a backward pass is checkpointing.
    knows_calls = has_calls_of_libraries(subject)
    own = subject.calls_of(_CHECKPOINT) if knows_calls else subject.is_module_call
    outer = subject.outermost_of(own & inside)
    again = np.flatnonzero(outer)
    # Backward passes that reentrant checkpointing runs inside the outer one.
    runs = subject.outermost_of(subject.name_contains("run_backward")) & subject.within(outer)
    total = subject.time_ns(again) - subject.time_ns(runs)
    if not len(again):
        return None
    asked = own & ~inside
    if knows_calls:
        asked &= subject.sites.called_here
    else:
        asked &= np.isin(subject.events["name"], subject.events["name"][again])
    forward = np.flatnonzero(asked)
    peak = int(subject.trace.table("allocations")["total_allocated_bytes"].max(initial=0))
    of_memory = f", of which {bytes_text(peak)} were in use at the peak" if peak else ""
    return Evidence(
        events=again,
        time_ns=total,
        explanation=(
            "Checkpointing discarded activations and recomputed them in the backward pass, "
            f"{subject.share(total)} of the time. In exchange it saves memory{of_memory}."
        ),
        saved_ns=total,
        saved_by="the recomputation; memory use grows in exchange",
        places=subject.sites.places(forward, subject.duration_ns[forward]),
    )


GROWING_GRAPH = Pattern(
    id="graph-that-grows",
    status=Status.MEMORY,
    title="The autograd graph grows with every step",
    advice=(
        "Detach at the end of a step: state = state.detach(), total += loss.detach(). Then "
        "retain_graph=True is unnecessary, too."
    ),
    find=_find_growing,
    worth_saying=_WORTH_SAYING,
)

GRAPH_OF_GRADIENTS = Pattern(
    id="graph-of-gradients",
    title="create_graph=True without a second backward pass",
    advice="Remove create_graph=True if no second derivative is computed.",
    find=_find_of_gradients,
    worth_saying=_WORTH_SAYING,
    needs=(Needs.SHAPES,),
)

RECOMPUTATION = Pattern(
    id="recomputation",
    title="Checkpointing recomputes activations",
    advice=(
        "If memory suffices, remove torch.utils.checkpoint, or apply it to fewer layers: those "
        "with large activations that are cheap to compute."
    ),
    find=_find_recomputation,
    worth_saying=_WORTH_SAYING,
    needs=(Needs.STACKS, Needs.LAYERS),
)
