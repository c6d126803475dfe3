"""Distinct operator calls of a trace, with counts and durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import EventKind, RecordScope, Role
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.signatures import first_of_each, mix
from opscope.timeline.tree.event_tree import nearest_ancestor

Mask = npt.NDArray[np.bool_]
_FLAT = {
    "tensors": ("argument", "element", "role", "dtype", "device_type", "layout"),
    "scalars": ("argument", "type", "value"),
}
_INPUTS = (Role.INPUT, Role.INPUT_PART)


@dataclass(frozen=True)
class RecordedCall:
    """Calls of one operator with equal tensor shapes, types and scalars."""

    name: str  # such as ``aten::add``
    overload: str | None  # ``""`` without an overload name; None if not recorded
    signature: int  # hash of name and arguments, see `call_signatures`
    events: npt.NDArray[np.int64]  # rows in ``events``
    recorded_ns: int  # total duration, including inner calls


class Calls:
    """Operator calls of a trace."""

    def __init__(self, trace: TraceData) -> None:
        self._trace = trace
        events = trace.events
        is_call = (events["kind"] == EventKind.OPERATOR) & (events["scope"] == RecordScope.FUNCTION)
        self._is_left: Mask = is_call & _names_with_namespace(trace)[events["name"]]
        self._signature = call_signatures(trace)
        options = trace.metadata.get("options")
        self._knows_overloads = "operator_schemas" in trace.metadata or (
            isinstance(options, dict) and bool(options.get("overloads"))
        )

    def outermost(self) -> Iterator[RecordedCall]:
        """Distinct calls that no other remaining call contains."""
        events = self._trace.events
        enclosing = nearest_ancestor(events["parent"], self._is_left)
        rows = np.flatnonzero(self._is_left & (enclosing < 0))
        group, first = first_of_each(self._signature[rows])
        order = np.argsort(group, kind="stable")
        borders = np.searchsorted(group[order], np.arange(1, len(first)))
        for members in np.split(order, borders) if len(first) else ():
            call_events = rows[members]
            yield RecordedCall(
                self._trace.event_name(int(call_events[0])),
                self._overload(int(call_events[0])),
                int(self._signature[call_events[0]]),
                call_events,
                int(events["duration_ns"][call_events].sum()),
            )

    def _overload(self, event: int) -> str | None:
        overload = self._trace.names[self._trace.events["overload"][event]]
        return overload if overload or self._knows_overloads else None

    def leave_out(self, call: RecordedCall) -> bool:
        """Remove this call; its inner calls become outermost. False if it has none."""
        self._is_left[call.events] = False
        is_removed = np.zeros(len(self._is_left), dtype=np.bool_)
        is_removed[call.events] = True
        parents = nearest_ancestor(self._trace.events["parent"], is_removed)
        return bool(np.any(self._is_left & (parents >= 0)))


def _names_with_namespace(trace: TraceData) -> Mask:
    """Whether each name looks like an operator's; the last entry is for -1. Shape (names + 1,)."""
    used = np.unique(trace.events["name"])
    result = np.zeros(len(trace.names) + 1, dtype=np.bool_)
    for row in used.tolist():
        namespace, separator, name = trace.names[row].partition("::")
        result[row] = bool(separator) and namespace.isidentifier() and name.isidentifier()
    return result


def call_signatures(trace: TraceData) -> npt.NDArray[np.uint64]:
    """64-bit hash of each event's name and arguments. Shape (events,).

    Tensors count by shape, strides, type and device; scalars by value.
    """
    events = trace.events
    pair = (events["name"].astype(np.int64) << 32) | (events["overload"] + 1)
    total = mix(pair)
    for name, columns in _FLAT.items():
        table = trace.table(name)
        rows = np.flatnonzero(np.isin(table["role"], _INPUTS))
        value = np.zeros(len(rows), dtype=np.uint64)
        for column in columns:
            value = mix(value ^ mix(table[column][rows]))
        if name == "tensors":
            value = mix(value ^ _list_hashes(table, "sizes", rows))
            value = mix(value + _list_hashes(table, "strides", rows))
        np.add.at(total, table["event"][rows], value)
    return total


def _list_hashes(table: Table, column: str, rows: npt.NDArray[np.int64]) -> Any:
    """Hash of each row's integers in a ragged column. Shape (rows,)."""
    lists = table.lists(column)
    count = np.diff(lists.offsets)
    owner = np.repeat(np.arange(len(count)), count)
    index = np.arange(len(owner)) - np.repeat(lists.offsets[:-1] - lists.offsets[0], count)
    values = lists.values[lists.offsets[0] : lists.offsets[-1]] if len(count) else lists.values[:0]
    total = np.zeros(len(count), dtype=np.uint64)
    np.add.at(total, owner, mix(mix(values) ^ mix(index)))
    return total[rows]
