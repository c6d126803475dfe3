"""One 64-bit hash per event of its argument shapes, scalar values or stack.

Grouping a million events by argument shapes means comparing ragged lists; comparing hashes takes a
few array passes. Two different lists have equal hashes with probability 2**-64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import Role
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values

Signature = npt.NDArray[np.uint64]


def mix(values: npt.NDArray[np.integer[Any]]) -> Signature:
    """Hash each value to 64 bits (the finaliser of SplitMix64). Same shape as ``values``."""
    return _native.mix(np.ascontiguousarray(values).astype(np.uint64, copy=False))


def shape_signatures(trace: TraceData, wanted: Flags | None = None) -> Signature:
    """Hash of the input shapes of every event; 0 for one without arguments. Shape (events,).

    Scalars, lists and zero-dim tensors are equal: all are shown as ``[]``. With ``wanted``, shape
    (events,), only these events are hashed; the others get 0.
    """
    tensors, scalars = trace.table("tensors"), trace.table("scalars")
    result = np.zeros(len(trace.events), dtype=np.uint64)
    rows = _input_rows(tensors, wanted)
    rows = rows[tensors["element"][rows] <= 0]  # first element of a list
    argument = mix(tensors["argument"][rows])
    _add(result, tensors["event"][rows], argument)
    plain = tensors["element"][rows] < 0
    _add(result, *_sizes(tensors, rows[plain], argument[plain]))
    rows = _input_rows(scalars, wanted)
    _add(result, scalars["event"][rows], mix(scalars["argument"][rows]))
    return result


def scalar_signatures(trace: TraceData, wanted: Flags | None = None) -> Signature:
    """Hash of the scalar input values of every event; 0 for none. Shape (events,)."""
    scalars = trace.table("scalars")
    rows = _input_rows(scalars, wanted)
    result = np.zeros(len(trace.events), dtype=np.uint64)
    argument = mix(scalars["argument"][rows])
    # Only one side of each sum is hashed: otherwise value 0 of argument 1 and value 1 of argument 0
    # would have equal hashes.
    _add(result, scalars["event"][rows], mix(scalars["value"][rows].astype(np.uint64) + argument))
    return result


def first_of_each(key: Signature) -> tuple[Values, Values]:
    """Number equal keys in order of first appearance.

    Returns numbers of keys, shape (keys,), and each number's first position, shape (groups,).
    """
    groups = group_rows(key.view(np.int64))  # any order that groups equal ones
    order = np.argsort(groups.first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[groups.group], groups.first[order]


def rows_of(ids: npt.NDArray[np.integer[Any]], wanted: npt.NDArray[np.integer[Any]]) -> Values:
    """First row of ``ids`` with each wanted id, -1 for none. Shape as ``wanted``."""
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    row = order[np.searchsorted(ids[order], wanted).clip(0, len(ids) - 1)]
    return np.where(ids[row] == wanted, row, -1)


def group_sums(values: Values, group: npt.NDArray[np.integer[Any]], groups: int) -> Values:
    """Sum of the values of every group, exact up to 2**53. Shape (groups,)."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)


def medians(values: Values, group: npt.NDArray[np.integer[Any]], groups: int) -> Values:
    """Lower median of the values of every group; undefined for groups without values.

    ``group``, for each value, is below ``groups``. Shape (groups,).
    """
    if not len(values):
        return np.zeros(groups, dtype=np.int64)
    count = np.bincount(group, minlength=groups)
    middle = np.cumsum(count) - count + (count - 1) // 2
    found: Values = values[order_rows(group, values)][middle.clip(0, len(values) - 1)]
    return found


def _input_rows(table: Table, wanted: Flags | None) -> Values:
    chosen = table["role"] == Role.INPUT
    return np.flatnonzero(chosen if wanted is None else chosen & wanted[table["event"]])


def _sizes(tensors: Table, rows: Values, argument: Signature) -> tuple[Values, Signature]:
    """Event and hash for every dimension of the given tensors."""
    sizes = tensors.lists("sizes")
    start, count = sizes.offsets[rows], np.diff(sizes.offsets)[rows]
    first = np.cumsum(count) - count
    dimension = np.arange(int(count.sum())) - np.repeat(first, count)
    value = sizes.values[np.repeat(start, count) + dimension]
    place = mix(dimension.astype(np.uint64) + np.repeat(argument, count))
    event = np.repeat(tensors["event"][rows], count)
    return event, mix(value.astype(np.uint64) + place)


def _add(total: Signature, event: npt.NDArray[np.integer[Any]], value: Signature) -> None:
    """Add each value to its event's hash, wrapping around."""
    if not len(event):
        return
    if (event[1:] >= event[:-1]).all():
        first = np.flatnonzero(np.diff(event, prepend=-1))
        total[event[first]] += np.add.reduceat(value, first)
    else:
        np.add.at(total, event, value)
