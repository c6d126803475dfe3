"""Recorded arguments of single events, decoded on request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.cached_property import cached_property
from opscope.columns.codes import LAYOUT_NAMES
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.schema import Role, ScalarType
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Rows, Values


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as it was when an event started; it keeps no tensor alive.

    Attributes:
        tensor_id: id of the tensor across views, ``set_`` and ``resize_``; -1 unknown.
        allocation_id: allocation that its storage came from; -1 unknown.
        impl: address of the TensorImpl, 0 if undefined.
        storage: address of the first byte of its storage, 0 if none.
        storage_offset: offset in elements.
        version: autograd version counter, -1 if there is none.
        dtype: torch's name, as in ``float32``; empty if undefined.
        device_type: c10::DeviceType.
        device_index: -1 for the CPU.
        layout: torch's name, as in ``strided``.
        requires_grad: value at the call.
        is_wrapped_number: whether torch wrapped a Python number.
        sizes: shape.
        strides: strides in elements.
    """

    tensor_id: int
    allocation_id: int
    impl: int
    storage: int
    storage_offset: int
    version: int
    dtype: str
    device_type: int
    device_index: int
    layout: str
    requires_grad: bool
    is_wrapped_number: bool
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Scalar:
    """An argument that is not a tensor.

    Attributes:
        value: Python value, None if it has no text form.
    """

    type: ScalarType
    value: Any


Argument = TensorRecord | list[TensorRecord] | Scalar


class Arguments:
    """Arguments of a trace's events."""

    def __init__(self, trace: TraceData) -> None:
        self._names = trace.names
        self._tensors = RowsOfEvent(trace.table("tensors"))
        self._scalars = RowsOfEvent(trace.table("scalars"))

    def inputs(self, event: int) -> list[Argument | None]:
        """Positional arguments in order; None for one that was not recorded."""
        return self._positional(event, Role.INPUT)

    def outputs(self, event: int) -> list[Argument | None]:
        """Results in order."""
        return self._positional(event, Role.OUTPUT)

    def keywords(self, event: int) -> dict[str, Argument]:
        """Keyword arguments by name."""
        arguments: dict[str, Argument] = {}
        for table, row in self._rows(event, Role.KEYWORD):
            self._put(arguments, self._names[table["keyword"][row]], table, row)
        return arguments

    def _positional(self, event: int, role: Role) -> list[Argument | None]:
        arguments: dict[int, Argument] = {}
        for table, row in self._rows(event, role):
            self._put(arguments, int(table["argument"][row]), table, row)
        return [arguments.get(i) for i in range(max(arguments, default=-1) + 1)]

    def _rows(self, event: int, role: Role) -> Iterator[tuple[Table, int]]:
        for index in (self._tensors, self._scalars):
            for row in index.rows(event):
                if index.table["role"][row] == role:
                    yield index.table, int(row)

    def _put(self, arguments: dict[Any, Argument], key: Any, table: Table, row: int) -> None:
        if table is self._scalars.table:
            kind = ScalarType(int(table["type"][row]))
            arguments[key] = Scalar(kind, scalar_value(kind, self._names[table["value"][row]]))
        elif table["element"][row] < 0:
            arguments[key] = tensor_record(table, row)
        else:
            elements = arguments.setdefault(key, [])
            if isinstance(elements, list):
                elements.append(tensor_record(table, row))


class RowsOfEvent:
    """Rows of a table by event, for sorted and unsorted tables."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @cached_property
    def _order(self) -> Values | None:
        event = self.table["event"]
        return None if (event[1:] >= event[:-1]).all() else np.argsort(event, kind="stable")

    @cached_property
    def _sorted(self) -> Rows:
        event: Rows = self.table["event"]
        return event if self._order is None else event[self._order]

    def rows(self, event: int) -> Values:
        """Rows of ``event``, in table order."""
        # The column's own dtype avoids a conversion of the whole column each time.
        wanted = np.array([event, event + 1], dtype=self._sorted.dtype)
        first, last = np.searchsorted(self._sorted, wanted)
        return np.arange(first, last) if self._order is None else self._order[first:last]

    def columns_of(self, events: Values, *names: str) -> list[list[tuple[Any, ...]]]:
        """Rows of each event as tuples of some columns, in table order; lists as tuples."""
        wanted = events.astype(self._sorted.dtype)
        first = np.searchsorted(self._sorted, wanted)
        last = np.searchsorted(self._sorted, wanted, side="right")
        columns: list[list[tuple[Any, ...]]] = [[] for _ in range(len(events))]
        for place in np.flatnonzero(last > first).tolist():
            rows = np.arange(first[place], last[place])
            rows = rows if self._order is None else self._order[rows]
            columns[place] = list(zip(*(self._values(name, rows) for name in names), strict=True))
        return columns

    def _values(self, name: str, rows: Values) -> list[Any]:
        if self.table.schema.column(name).is_list:
            lists = self.table.lists(name)
            return [tuple(lists[row]) for row in rows.tolist()]
        values: list[Any] = self.table[name][rows].tolist()
        return values


def tensor_record(table: Table, row: int) -> TensorRecord:
    """Record of one row of ``tensors``."""
    dtype, layout = int(table["dtype"][row]), int(table["layout"][row])
    return TensorRecord(
        tensor_id=int(table["tensor_id"][row]),
        allocation_id=int(table["allocation_id"][row]),
        impl=int(table["impl"][row]),
        storage=int(table["storage"][row]),
        storage_offset=int(table["storage_offset"][row]),
        version=int(table["version"][row]),
        dtype=TORCH_NAMES.get(dtype, ""),
        device_type=int(table["device_type"][row]),
        device_index=int(table["device_index"][row]),
        layout=LAYOUT_NAMES[layout] if 0 <= layout < len(LAYOUT_NAMES) else "",
        requires_grad=bool(table["requires_grad"][row]),
        is_wrapped_number=bool(table["is_wrapped_number"][row]),
        sizes=tuple(table.lists("sizes")[row]),
        strides=tuple(table.lists("strides")[row]),
    )


def scalar_value(kind: ScalarType, text: str) -> Any:
    """Python value of a scalar's text from torch; None if it has no value."""
    if kind in (ScalarType.STRING, ScalarType.DEVICE):
        return text
    if kind == ScalarType.TENSOR_LIST:
        return []
    if kind == ScalarType.OTHER_LIST:
        return list_of_strings(text)
    if kind in _LIST_ELEMENTS:
        inner = text.strip().removeprefix("[").removesuffix("]").strip()
        kind = _LIST_ELEMENTS[kind]
        return [_number(_spelled_kind(kind, part), part) for part in inner.split(",") if part]
    return _number(kind, text)


def list_of_strings(text: str) -> list[str] | None:
    """Strings in the text of an ``OTHER_LIST``; None if it contains anything else.

    The text is as for nested values (see ``columns.schema.SCALARS``), or a JSON array.
    """
    try:
        value = json.loads(text)
        items = value["GenericList"] if isinstance(value, dict) else value
        strings = [item["String"] if isinstance(item, dict) else item for item in items]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return strings if all(isinstance(item, str) for item in strings) else None


_LIST_ELEMENTS = {
    ScalarType.INT_LIST: ScalarType.INT,
    ScalarType.FLOAT_LIST: ScalarType.FLOAT,
    ScalarType.BOOL_LIST: ScalarType.BOOL,
}


def _spelled_kind(kind: ScalarType, text: str) -> ScalarType:
    """Type of an element of a list of Scalar: elements have own types, visible in their text."""
    if kind != ScalarType.FLOAT:
        return kind
    text = text.strip()
    if text in ("True", "False"):
        return ScalarType.BOOL
    if text.endswith("j"):
        return ScalarType.COMPLEX
    return ScalarType.INT if text.lstrip("-").isdigit() else kind


def _number(kind: ScalarType, text: str) -> Any:
    text = text.strip()
    try:
        if kind == ScalarType.BOOL:
            return text.lower() in ("true", "1")
        if kind == ScalarType.INT:
            return int(text)
        if kind == ScalarType.FLOAT:
            return float(text)
        return complex(text) if kind == ScalarType.COMPLEX else None
    except ValueError:  # another format of another torch version: keep the text
        return text


def keyword_values(trace: TraceData, keywords: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Keyword arguments by event and name, for the few events with any of ``keywords``."""
    scalars = trace.table("scalars")
    rows = np.flatnonzero(scalars["role"] == Role.KEYWORD)
    if not len(rows):
        return {}
    used: npt.NDArray[Any] = np.unique(scalars["keyword"][rows])
    wanted = [row for row in used.tolist() if trace.names[row] in keywords]
    by_event: dict[int, dict[str, Any]] = {}
    for row in rows[np.isin(scalars["keyword"][rows], wanted)].tolist():
        name = trace.names[scalars["keyword"][row]]
        text = trace.names[scalars["value"][row]]
        is_number = scalars["type"][row] == ScalarType.INT and text.lstrip("-").isdigit()
        by_event.setdefault(int(scalars["event"][row]), {})[name] = int(text) if is_number else text
    return by_event
