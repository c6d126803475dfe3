"""What recording cost a program: in all, for each event, and stretch by stretch of a thread.

The ledger says what recording one of each kind costs here, in calls that do nothing else again and
again. A program costs more where it uses the caches for something else between one event and the
next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.program_files import is_library
from opscope.trace.codes import EventKind
from opscope.trace.ledger_rows import (
    KIND_COST,
    QUICKEST,
    QUICKEST_TAKES,
    ROOM_TOOK,
    SLOWDOWN,
    SPAN_COST,
    CostKind,
)
from opscope.trace.row_groups import order_rows
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.event_tree import event_tree
from opscope.tree.frame_text import event_texts, python_events

Values = npt.NDArray[np.int64]
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
_IN_PROGRAMS, _COLD, _COLDEST, _RECENT_NS = 1.3, 3.5, 2.5, 20_000
"""Of what was measured: how much more it is in a program that does the same again, and further on.

That is for each time that the quickest operator takes longer than with warm caches, up to so many.
Measured over half of the programs of ``benchmarks/advice`` and held against the other half.
"""

_FEWEST, _SLOWER = 20, 1.3
"""Of the quickest operator, so that it tells; otherwise it is taken to be so much slower."""

_LONG_NS, _OF_SLOWDOWN, _OF_OTHERS = 20_000, 0.9, 0.3
"""The slowdown is measured on small loops. What the program computes for so long without a call is
alike: eleven other loops had 0.15 to 2.2 of it, 1 in the mean. Other code is mostly in C.
"""


_MEANS: WeakKeyDictionary[Trace, float] = WeakKeyDictionary()


@dataclass(frozen=True)
class RecordingCosts:
    """What the ledger says of what recording cost.

    Attributes:
        of_one_ns: by kind; empty where that was not measured.
        quickest_ns: what the quickest operator takes with warm caches; 0 where it is not known.
        between: how many times as long Python takes between events.
    """

    of_one_ns: Mapping[CostKind, float]
    quickest_ns: float
    between: float

    def of_stretches(self, trace: Trace, event: Values, took_ns: Amounts) -> Amounts:
        """How many times as long stretches took, by the innermost event of each, -1 for none.

        Those in which the interpreter goes from instruction to instruction. A library's that is
        long calls nothing because it is in C, and between Python and an operator are torch's
        bindings.
        """
        kind, frames = trace.events["kind"], trace.table("frames")
        is_code = np.append(python_events(trace) & (kind != EventKind.C_CALL), False)[event]
        calls, library = trace.table("python_calls"), np.zeros(len(kind) + 1, dtype=np.bool_)
        files = [is_library(trace.names[file]) for file in frames["file"]]
        library[calls["event"]] = np.array([*files, False])[calls["frame"]]
        operator = np.append(kind == EventKind.OPERATOR, False)[event]
        beside = np.append(operator[1:], False) | np.append(False, operator[:-1])
        is_long = took_ns > _LONG_NS
        slow = is_code & ~beside & ~(library[event] & is_long)
        share = np.where(is_long, _OF_SLOWDOWN, _OF_OTHERS)
        return np.where(slow, 1 + (self.between - 1) * share, 1.0)


def recording_costs(trace: Trace) -> RecordingCosts:
    """Of this recording, as measured when it ended."""
    rows = trace.ledger.get("recorder", {})
    factors = [factor for what, factor in rows.items() if what.startswith(SLOWDOWN)]
    of_one = {kind: rows.get(KIND_COST + kind.value, 0.0) for kind in CostKind}
    known = of_one if any(of_one.values()) else {}
    return RecordingCosts(known, rows.get(QUICKEST_TAKES, 0.0), max([1.0, *factors]))


def cost_of_an_event_ns(trace: Trace) -> float | None:
    """What recording one event cost on average, with all that was recorded of it and the memory
    for that, nanoseconds.

    Of a recording that tells no more, what one operator without arguments costs with warm caches.
    None: not measured.
    """
    found = _MEANS.get(trace)
    if found is None:
        found = _MEANS[trace] = _mean_ns(trace)
    return found or None


def _mean_ns(trace: Trace) -> float:
    costs = recording_costs(trace)
    if not costs.of_one_ns or not len(trace.events):
        mean_ns = trace.ledger.get("recorder", {}).get(SPAN_COST, 0.0)
        return mean_ns + _room_ns(trace) if mean_ns else 0.0
    return float(_costs_of_events_ns(trace, costs).mean())


def costs_ns(trace: Trace, edges: Values, costs: RecordingCosts) -> Amounts:
    """What recording took from each edge to the next: half of it before a span, half after."""
    events = trace.events
    half = _costs_of_events_ns(trace, costs) / 2
    ends = events["start_ns"] + event_tree(trace).duration_ns
    start = np.ascontiguousarray(events["start_ns"], dtype=np.int64)
    before = _native.sums_between(edges, start, half, right=False)
    after = _native.sums_between(edges, ends, half, right=True)
    return np.asarray((before + after)[1:-1])


def _costs_of_events_ns(trace: Trace, costs: RecordingCosts) -> Amounts:
    of_one_ns = _of_events_ns(trace, costs.of_one_ns) * _coldness(trace, costs.quickest_ns)
    return of_one_ns + _room_ns(trace)


def _room_ns(trace: Trace) -> float:
    """What making room for the records of one event took, on average."""
    return trace.ledger.get("recorder", {}).get(ROOM_TOOK, 0.0) / events_recorded(trace)


def events_recorded(trace: Trace) -> float:
    """How many the recording has that a trace is of, or is part of; at least 1."""
    told = trace.ledger.get("events", {}).get("recorded", 0.0)
    return max(told, len(trace.events), 1.0)


def _of_events_ns(trace: Trace, of_one_ns: Mapping[CostKind, float]) -> Amounts:
    """What recording each event costs with warm caches, with all that was recorded of it."""
    kind, count = trace.events["kind"], len(trace.events)
    is_operator = kind == EventKind.OPERATOR
    inner = nearest_ancestor(event_tree(trace).parent, is_operator) >= 0
    result = np.where(inner, of_one_ns[CostKind.INNER_OPERATOR], of_one_ns[CostKind.OPERATOR])
    result = np.where(is_operator, result, 0.0)
    for code, of_kind in _KINDS.items():
        result[kind == code] = of_one_ns[of_kind]
    for table, of_kind in _TABLES.items():
        event = trace.table(table)["event"]
        result += of_one_ns[of_kind] * np.bincount(event[event >= 0], minlength=count)
    return np.asarray(result)


def slowness(trace: Trace, quickest_ns: float) -> float:
    """How many times as long the quickest operator takes in this program as with warm caches.

    So does all that is as short and was measured where it does nothing else.
    """
    names = np.append([text == QUICKEST for text in trace.names], False).astype(np.bool_)
    took = trace.events["duration_ns"][names[trace.events["name"]]]
    known = len(took) >= _FEWEST and quickest_ns > 0
    return float(np.median(took)) / quickest_ns if known else _SLOWER


def _coldness(trace: Trace, quickest_ns: float) -> Amounts:
    """How many times as much each event costs for what the caches hold by then.

    One like it just before means that they hold what it needs. Else it shows in what the quickest
    of operators takes, which needs no more than the recorder does.
    """
    events, slower = trace.events, slowness(trace, quickest_ns)
    label, _ = event_texts(trace)
    order = order_rows(label, events["start_ns"])
    since = np.diff(events["start_ns"][order], prepend=0)
    since[np.diff(label[order], prepend=-1) != 0] = _RECENT_NS
    result = np.full(len(events), _IN_PROGRAMS)
    result[order[since >= _RECENT_NS]] += _COLD * max(min(slower, _COLDEST) - 1, 0.0)
    return result
