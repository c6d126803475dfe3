"""Overhead of recording: nanoseconds per event, by kind.

The ledger has the cost of one event of each kind on this machine, measured in an empty loop
(:mod:`opscope.recording.cost`). Findings, summaries and accounts of time all use it.
"""

from __future__ import annotations

import numpy as np

from opscope.columns.codes import EventKind
from opscope.columns.ledger import KIND_COST, CostKind
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Amounts
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor

_KINDS = {
    EventKind.OPERATOR: CostKind.OPERATOR,
    EventKind.ANNOTATION: CostKind.OPERATOR,
    EventKind.PYTHON_CALL: CostKind.PYTHON_CALL,
    EventKind.MODULE_CALL: CostKind.PYTHON_CALL,
    EventKind.OPTIMIZER_CALL: CostKind.PYTHON_CALL,
    EventKind.C_CALL: CostKind.C_CALL,
}
_TABLES = {
    "tensors": CostKind.TENSOR,
    "scalars": CostKind.SCALAR,
    "allocations": CostKind.ALLOCATION,
}
_IN_PROGRAMS = 1.3
"""Factor from the loop's cost to a program's, whose other data competes for the caches."""


def has_measured_cost(trace: TraceData) -> bool:
    """Whether the cost of recording was measured."""
    return _cost_by_kind_ns(trace) is not None


@derived
def costs_of_events_ns(trace: TraceData) -> Amounts | None:
    """Cost of recording each event, with its arguments and allocations; None if not measured.

    Nanoseconds, shape (events,). Cached for each trace.
    """
    by_kind_ns = _cost_by_kind_ns(trace)
    if by_kind_ns is None:
        return None
    count, by_code_ns = len(trace.events), np.zeros(256)  # 0 for kinds of a newer opscope
    for code, cost_kind in _KINDS.items():
        by_code_ns[code] = by_kind_ns[cost_kind]
    result = by_code_ns[trace.events["kind"]]
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    is_inner = is_operator & (nearest_ancestor(event_tree(trace).parent, is_operator) >= 0)
    result[is_inner] = by_kind_ns[CostKind.INNER_OPERATOR]
    for table, cost_kind in _TABLES.items():
        event = trace.table(table)["event"]
        result += by_kind_ns[cost_kind] * np.bincount(event[event >= 0], minlength=count)
    return np.asarray(_IN_PROGRAMS * result)


def cost_of_an_event_ns(trace: TraceData) -> float | None:
    """Mean of :func:`costs_of_events_ns`; None if not measured, or without events."""
    costs_ns = costs_of_events_ns(trace)
    return (float(costs_ns.mean()) or None) if costs_ns is not None and len(costs_ns) else None


def _cost_by_kind_ns(trace: TraceData) -> dict[CostKind, float] | None:
    rows = trace.ledger.get("recorder", {})
    found = {kind: rows.get(KIND_COST + kind.value, 0.0) for kind in CostKind}
    return found if any(found.values()) else None
