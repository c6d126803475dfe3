"""What recording cost the program: nanoseconds of each event, by its kind.

The ledger has what one of each kind costs on this machine, measured in a loop that does nothing
else (:mod:`opscope.recorder.cost`). Findings, summaries and accounts of time all use these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import EventKind
from opscope.columns.derived import derived
from opscope.columns.ledger_rows import KIND_COST, CostKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.ancestry import nearest_ancestor
from opscope.timeline.tree.event_tree import event_tree

Amounts = npt.NDArray[np.float64]

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
"""How much more than in that loop it is in a program, which uses the caches for other things."""


@derived
def costs_of_events_ns(trace: TraceData) -> Amounts | None:
    """What recording each event cost, with its arguments and allocations; None: not measured.

    Shape (events,). The same array for the same trace.
    """
    rows = trace.ledger.get("recorder", {})
    of_one_ns = {kind: rows.get(KIND_COST + kind.value, 0.0) for kind in CostKind}
    return _IN_PROGRAMS * _costs(trace, of_one_ns) if any(of_one_ns.values()) else None


def cost_of_an_event_ns(trace: TraceData) -> float | None:
    """What recording one event cost on average, nanoseconds; None: not measured."""
    costs = costs_of_events_ns(trace)
    return float(costs.mean()) or None if costs is not None and len(costs) else None


def _costs(trace: TraceData, of_one_ns: dict[CostKind, float]) -> Amounts:
    kind, count = trace.events["kind"], len(trace.events)
    of_kind = np.zeros(256)  # also for kinds that only a newer opscope knows
    of_kind[EventKind.OPERATOR] = of_one_ns[CostKind.OPERATOR]
    for code, cost_kind in _KINDS.items():
        of_kind[code] = of_one_ns[cost_kind]
    result = of_kind[kind]
    is_operator = kind == EventKind.OPERATOR
    is_inner = is_operator & (nearest_ancestor(event_tree(trace).parent, is_operator) >= 0)
    result[is_inner] = of_one_ns[CostKind.INNER_OPERATOR]
    for table, cost_kind in _TABLES.items():
        event = trace.table(table)["event"]
        result += of_one_ns[cost_kind] * np.bincount(event[event >= 0], minlength=count)
    return np.asarray(result)
