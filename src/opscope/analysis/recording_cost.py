"""Overhead of recording: nanoseconds per event, by kind.

The ledger has the cost of one event of each kind on this machine, measured in an empty loop
(:mod:`opscope.recording.cost`). Findings, summaries and accounts of time all use it.
"""

from __future__ import annotations

import numpy as np

from opscope.columns.codes import EventKind
from opscope.columns.ledger import KIND_COST, CostKind
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Amounts, Flags
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor

_KINDS = {
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
    count = len(trace.events)
    result = _cost_by_code_ns(by_kind_ns)[trace.events["kind"]]
    result[_is_inner_operator(trace)] = by_kind_ns[CostKind.INNER_OPERATOR]
    for table, cost_kind in _TABLES.items():
        event = trace.table(table)["event"]
        result += by_kind_ns[cost_kind] * np.bincount(event[event >= 0], minlength=count)
    return np.asarray(_IN_PROGRAMS * result)


@derived
def cost_of_an_event_ns(trace: TraceData) -> float | None:
    """Mean cost of recording an event in nanoseconds, by counts of kinds; None if not measured."""
    by_kind_ns, events = _cost_by_kind_ns(trace), len(trace.events)
    if by_kind_ns is None or not events:
        return None
    by_code = np.bincount(trace.events["kind"], minlength=256)
    inner = np.count_nonzero(_is_inner_operator(trace))
    total = float(by_code @ _cost_by_code_ns(by_kind_ns))
    total += inner * (by_kind_ns[CostKind.INNER_OPERATOR] - by_kind_ns[CostKind.OPERATOR])
    for table, cost_kind in _TABLES.items():
        total += by_kind_ns[cost_kind] * np.count_nonzero(trace.table(table)["event"] >= 0)
    return _IN_PROGRAMS * total / events or None


def _cost_by_kind_ns(trace: TraceData) -> dict[CostKind, float] | None:
    rows = trace.ledger.get("recorder", {})
    found = {kind: rows.get(KIND_COST + kind.value, 0.0) for kind in CostKind}
    return found if any(found.values()) else None


def _cost_by_code_ns(by_kind_ns: dict[CostKind, float]) -> Amounts:
    """Cost by code of an event's kind; 0 for kinds of a newer opscope."""
    of_code = np.zeros(256)
    of_code[EventKind.OPERATOR] = by_kind_ns[CostKind.OPERATOR]
    for code, cost_kind in _KINDS.items():
        of_code[code] = by_kind_ns[cost_kind]
    return of_code


def _is_inner_operator(trace: TraceData) -> Flags:
    is_operator: Flags = trace.events["kind"] == EventKind.OPERATOR
    return is_operator & (nearest_ancestor(event_tree(trace).parent, is_operator) >= 0)
