"""Events averaged by name, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from opscope.analysis.flops import FlopCounts
from opscope.analysis.torch_listing.rows import (
    ListedRows,
    Quantities,
    RowSource,
    list_rows,
    plain_shapes,
)
from opscope.base.reused_memory import reusing_memory, row_blocks
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.listing import TorchListing
from opscope.timeline.signatures import Signature, first_of_each, group_sums, mix, shape_signatures
from opscope.timeline.stacks import Stacks
from opscope.timeline.tree.arguments import Arguments

Value = TypeVar("Value")
Labels = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Averages:
    """One row per group of events with the same key, in order of first appearance.

    Arrays have shape (groups,); times are nanoseconds, memory is bytes.
    """

    names: list[str]  # names of the events, ``ProfilerStep#N`` as ``ProfilerStep*``
    count: Values  # number of events in the group
    quantities: Quantities  # sums over the group; see :data:`Quantities`
    first: Values  # position of the group's first event in ``rows``
    rows: ListedRows  # listed rows of which the groups were made
    overload_names: list[str] | None = None  # per group; None unless grouped by it
    input_shapes: list[list[list[int]]] | None = None  # per group; None likewise
    stacks: list[list[str]] | None = None  # innermost frames, per group; None likewise

    def __len__(self) -> int:
        return len(self.names)

    def quantity(self, name: str) -> Values:
        """One of ``quantities``; zeros if not recorded."""
        values = self.quantities.get(name)
        return np.zeros(len(self), dtype=np.int64) if values is None else values

    def of(self, groups: Values) -> Averages:
        """Copy with the given groups only."""
        return replace(
            self,
            names=[self.names[group] for group in groups],
            count=self.count[groups],
            quantities={name: values[groups] for name, values in self.quantities.items()},
            first=self.first[groups],
            overload_names=_of(self.overload_names, groups),
            input_shapes=_of(self.input_shapes, groups),
            stacks=_of(self.stacks, groups),
        )


@reusing_memory
def key_averages(
    trace: TraceData,
    group_by_input_shape: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
    flops: FlopCounts | None = None,
    listing: TorchListing | None = None,
    rows: ListedRows | None = None,
) -> Averages:
    """Sum times, memory and operations (``flops``, if given) of all events by name.

    ``group_by_stack_n``: number of innermost frames that must be equal. ``listing`` and ``rows``:
    existing ones of ``trace``.
    """
    listing = listing or TorchListing(trace)
    rows = rows or list_rows(listing, flops)
    stacks = Stacks(listing) if group_by_stack_n > 0 else None
    extra = _extra_keys(listing, group_by_input_shape, group_by_overload_name)
    if stacks is not None:
        extra.append(stacks.signatures(group_by_stack_n))
    group, first = _group(rows, extra)
    event = np.where(rows.source[first] == RowSource.EVENT, rows.row[first], -1)
    return Averages(
        names=[rows.texts[label] for label in rows.label[first]],
        count=_count(group, len(first)),
        quantities={name: _sum(v, group, len(first)) for name, v in rows.quantities.items()},
        first=first,
        rows=rows,
        overload_names=_overloads(trace, event) if group_by_overload_name else None,
        input_shapes=_shapes(trace, event) if group_by_input_shape else None,
        stacks=None if stacks is None else _stacks(stacks, event, group_by_stack_n),
    )


def _of(values: list[Value] | None, groups: Values) -> list[Value] | None:
    return None if values is None else [values[group] for group in groups]


def _extra_keys(listing: TorchListing, by_shape: bool, by_overload: bool) -> list[Signature]:
    extra = []
    if by_shape:
        extra.append(shape_signatures(listing.trace))
    if by_overload:
        extra.append(mix(listing.trace.events["overload"]))
    return extra


def _group(rows: ListedRows, extra: list[Signature]) -> tuple[Labels, Values]:
    if not extra:
        return _group_small(rows.key)
    key = mix(rows.key)
    is_event = rows.source == RowSource.EVENT
    for signature in extra:
        of_row = np.zeros(len(key), dtype=np.uint64)
        of_row[is_event] = signature[rows.row[is_event]]
        key = mix(key ^ mix(of_row))
    return first_of_each(key)


def _group_small(key: Labels) -> tuple[Labels, Values]:
    """``first_of_each`` for small integers as keys, without hashing."""
    size = int(key.max()) + 1 if len(key) else 0
    first = np.full(size, -1, dtype=np.int64)
    for block in row_blocks(len(key)):
        fresh = block.start + np.flatnonzero(first[key[block]] < 0)
        first[key[fresh[::-1]]] = fresh[::-1]  # NumPy keeps the last of several writes
    used = np.flatnonzero(first >= 0)
    used = used[np.argsort(first[used])]
    number = np.zeros(size, dtype=np.int32)
    number[used] = np.arange(len(used))
    group = np.empty(len(key), dtype=np.int32)
    for block in row_blocks(len(key)):
        group[block] = number[key[block]]
    return group, first[used]


def _count(group: Labels, groups: int) -> Values:
    total = np.zeros(groups, dtype=np.int64)
    for block in row_blocks(len(group)):
        total += np.bincount(group[block], minlength=groups)
    return total


def _sum(values: Values, group: Labels, groups: int) -> Values:
    total = np.zeros(groups, dtype=np.int64)
    for block in row_blocks(len(group)):
        total += group_sums(values[block], group[block], groups)
    return total


def _overloads(trace: TraceData, event: Values) -> list[str]:
    overload = trace.events["overload"]
    return [trace.names[overload[e]] if e >= 0 else "" for e in event]


def _shapes(trace: TraceData, event: Values) -> list[list[list[int]]]:
    arguments = Arguments(trace)
    return [plain_shapes(arguments.inputs(int(e))) if e >= 0 else [] for e in event]


def _stacks(stacks: Stacks, event: Values, limit: int) -> list[list[str]]:
    return [stacks.of(int(e), limit) if e >= 0 else [] for e in event]
