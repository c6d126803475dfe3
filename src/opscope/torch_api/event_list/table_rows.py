"""The rows of an event table as columns, from objects or from a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opscope.analysis.torch_listing.averages import Averages
from opscope.analysis.torch_listing.rows import RowSource, plain_shapes
from opscope.timeline.signatures import first_of_each, shape_signatures
from opscope.torch_api.event.listed_trace import ListedTrace
from opscope.torch_api.event.parts import SUMS, is_cpu, sums_in_torch_units

NUMBERS = (
    "count",
    "node_id",
    *SUMS,
)
"""Numeric attributes in a table; times in microseconds, memory in bytes."""


class StackTexts(Protocol):
    """Stacks by row."""

    longest: int
    """Length of the longest entry."""

    def __getitem__(self, row: int) -> Sequence[str]: ...


class Texts:
    """One text per row; each distinct text is stored once."""

    def __init__(self, index: npt.NDArray[np.integer[Any]], texts: Sequence[str]) -> None:
        self.index = index
        self.texts = texts

    def __getitem__(self, row: int) -> str:
        return self.texts[int(self.index[row])]

    @property
    def longest(self) -> int:
        """Length of the longest text of any row."""
        used = np.flatnonzero(np.bincount(self.index, minlength=1))
        return max((len(self.texts[i]) for i in used.tolist()), default=0)


@dataclass(frozen=True)
class TableRows:
    """Content of a table. Arrays have shape (rows,)."""

    numbers: dict[str, npt.NDArray[Any]]  # by attribute name, see :data:`NUMBERS`
    names: Texts  # name of each row
    overloads: Texts | None  # operator overloads; None if no row has one
    shapes: Texts | None  # argument shapes as text; None if no row has any
    stacks: StackTexts | None  # None if no row has one
    is_async: npt.NDArray[np.bool_]  # asynchronous events
    has_parent: npt.NDArray[np.bool_]  # rows below the top level
    on_device: npt.NDArray[np.bool_]  # device work, whose self time makes up the device total
    use_device: str | None  # device name, None without one

    def __len__(self) -> int:
        return len(self.is_async)


class _ListedStacks:
    def __init__(self, stacks: list[Sequence[str]]) -> None:
        self._stacks = stacks
        self.longest = max((len(entry) for stack in stacks for entry in stack), default=0)

    def __getitem__(self, row: int) -> Sequence[str]:
        return self._stacks[row]


def rows_of_objects(events: Sequence[Any], needs_parents: bool) -> TableRows:
    """Rows of ``FunctionEvent`` or ``FunctionEventAvg`` objects.

    ``needs_parents``: whether ``has_parent`` is used; averages create objects for it.
    """
    shapes = [event.input_shapes for event in events]
    stacks = [event.stack or () for event in events]
    parents = (event.cpu_parent is not None for event in events) if needs_parents else ()
    return TableRows(
        numbers={n: np.array([getattr(e, n) or 0 for e in events]) for n in NUMBERS},
        names=_each(event.key for event in events),
        overloads=_if_any(event.overload_name or "" for event in events),
        shapes=_each(map(str, shapes)) if any(shapes) else None,
        stacks=_ListedStacks(stacks) if any(stacks) else None,
        is_async=np.array([bool(event.is_async) for event in events], dtype=np.bool_),
        has_parent=np.array(list(parents), dtype=np.bool_),
        on_device=np.array(
            [not is_cpu(e.device_type) and not e.is_user_annotation for e in events], dtype=np.bool_
        ),
        use_device=events[0].use_device if events else None,
    )


def _each(texts: Iterable[str]) -> Texts:
    all_texts = list(texts)
    return Texts(np.arange(len(all_texts)), all_texts)


def _if_any(texts: Iterable[str]) -> Texts | None:
    all_texts = list(texts)
    return _each(all_texts) if any(all_texts) else None


def rows_of_source(source: ListedTrace) -> TableRows:
    """Rows of all events of a trace, without creating event objects."""
    rows = source.rows
    is_event = rows.source == RowSource.EVENT
    event = np.where(is_event, rows.row, -1)
    return TableRows(
        numbers=_numbers(source),
        names=Texts(rows.label, rows.texts),
        overloads=_overloads(source, event),
        shapes=_shapes(source, event),
        stacks=_SourceStacks(source, event) if source.stacks else None,
        is_async=is_event & _of_events(source.listing.is_async, event),
        has_parent=is_event & (_of_events(source.parent, event) >= 0),
        on_device=(rows.source == RowSource.GPU) & (rows.key % 2 == 0),
        use_device=source.use_device,
    )


def rows_of_averages(averages: Averages, source: ListedTrace) -> TableRows:
    """Rows of the averages of a trace, without creating event objects."""
    rows, first, count = averages.rows, averages.first, len(averages)
    kind = rows.source[first]
    is_event = kind == RowSource.EVENT
    event = np.where(is_event, rows.row[first], -1)
    shapes, stacks = averages.input_shapes or [], averages.stacks or []
    return TableRows(
        numbers={
            "count": averages.count,
            "node_id": np.full(count, -1),
            **sums_in_torch_units(averages.quantities, count),
        },
        names=_each(averages.names),
        overloads=_if_any(averages.overload_names or ()),
        shapes=_each(map(str, shapes)) if any(shapes) else None,
        stacks=_ListedStacks(list(stacks)) if any(stacks) else None,
        is_async=is_event & _of_events(source.listing.is_async, event),
        has_parent=is_event & (_of_events(source.parent, event) >= 0),
        on_device=(kind == RowSource.GPU) & (rows.key[first] % 2 == 0),
        use_device=source.use_device,
    )


def _of_events(values: npt.NDArray[Any], event: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Value of each row's event; undefined for rows without one."""
    return values[event] if len(values) else np.zeros(len(event), dtype=values.dtype)


def _numbers(source: ListedTrace) -> dict[str, npt.NDArray[Any]]:
    count = len(source.rows)
    return {
        "count": np.ones(count, dtype=np.int64),
        "node_id": np.full(count, -1),
        **sums_in_torch_units(source.rows.quantities, count),
    }


def _overloads(source: ListedTrace, event: npt.NDArray[np.int64]) -> Texts | None:
    overload = np.where(event >= 0, _of_events(source.trace.events["overload"], event), -1)
    used = np.unique(overload)
    texts = [source.trace.names[int(name)] for name in used]
    return Texts(np.searchsorted(used, overload), texts) if any(texts) else None


def _shapes(source: ListedTrace, event: npt.NDArray[np.int64]) -> Texts | None:
    if not len(source.trace.table("tensors")) and not len(source.trace.table("scalars")):
        return None
    signature = np.where(
        event >= 0, _of_events(shape_signatures(source.trace), event), np.uint64(0)
    )
    group, first = first_of_each(signature)
    inputs = [source.arguments.inputs(int(e)) if e >= 0 else [] for e in event[first]]
    return Texts(group, [str(plain_shapes(arguments)) for arguments in inputs])


class _SourceStacks:
    def __init__(self, source: ListedTrace, event: npt.NDArray[np.int64]) -> None:
        assert source.stacks is not None
        self._stacks, self._event = source.stacks, event
        self.longest = source.stacks.longest_entry()

    def __getitem__(self, row: int) -> Sequence[str]:
        event = int(self._event[row])
        return self._stacks.of(event) if event >= 0 else ()
