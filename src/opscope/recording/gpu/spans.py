"""Annotations on devices: from the first to the last work launched inside, per stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import GpuKind
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.columns.table import ListColumn, Table

_KEYS = ("annotation", "device_type", "device_index", "context", "stream")


def annotation_spans(events: Table, gpu: Table) -> Table:
    """``gpu`` with a row per annotation and stream added, in order of start."""
    spans = _spans(events, gpu)
    added = len(spans["start_ns"])
    if not added:
        return gpu
    start = np.concatenate([gpu["start_ns"], spans["start_ns"]])
    # An annotation begins with its first work and precedes it.
    is_work = np.arange(len(start)) < len(gpu)
    order = np.lexsort((is_work, start))
    merged: dict[str, Any] = {}
    for name, values in gpu.given.items():
        if isinstance(values, ListColumn):
            merged[name] = _spread(values, order)
            continue
        fill = spans.get(name, gpu.schema.column(name).default)
        new = np.broadcast_to(np.asarray(fill, dtype=values.dtype), added)
        merged[name] = np.concatenate([values, new])[order]
    return Table(gpu.schema, merged)


def _spans(events: Table, gpu: Table) -> dict[str, npt.NDArray[Any]]:
    columns = _inside_annotations(events, gpu)
    spans = group_rows(*(columns[name] for name in _KEYS))
    start = np.full(len(spans), np.iinfo(np.int64).max, dtype=np.int64)
    end = np.zeros(len(spans), dtype=np.int64)
    np.minimum.at(start, spans.group, columns["start_ns"])
    np.maximum.at(end, spans.group, columns["end_ns"])
    return {
        "kind": np.full(len(spans), GpuKind.ANNOTATION, dtype=np.uint8),
        "name": events["name"][spans.columns[0]],
        "start_ns": start,
        "duration_ns": end - start,
        **dict(zip(_KEYS[1:], spans.columns[1:], strict=True)),
    }


def _inside_annotations(events: Table, gpu: Table) -> dict[str, npt.NDArray[np.int64]]:
    """One row per activity and annotation around its launch, as columns."""
    rows = np.flatnonzero((gpu["launch"] >= 0) & (gpu["kind"] <= GpuKind.SET))
    parent, kind = events["parent"], events["kind"]
    event = gpu["launch"][rows]
    parts: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
    while len(rows):
        found = kind[event] == EventKind.ANNOTATION
        parts.append((rows[found], event[found]))
        event = parent[event]
        rows, event = rows[event >= 0], event[event >= 0]
    empty = np.zeros(0, dtype=np.int64)
    work = np.concatenate([empty, *(part[0] for part in parts)])
    columns = {name: gpu[name][work].astype(np.int64) for name in ("start_ns", *_KEYS[1:])}
    columns["annotation"] = np.concatenate([empty, *(part[1] for part in parts)])
    columns["end_ns"] = columns["start_ns"] + gpu["duration_ns"][work]
    return columns


def _spread(column: ListColumn, order: npt.NDArray[Any]) -> ListColumn:
    """The lists in a new order; rows beyond the column's end are empty."""
    lengths = np.zeros(len(order), dtype=np.int64)
    lengths[: len(column)] = np.diff(column.offsets)
    starts = np.append(column.offsets[:-1], np.zeros(len(order) - len(column), dtype=np.int64))
    lengths, starts = lengths[order], starts[order]
    offsets = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    shift = np.repeat(starts - offsets[:-1], lengths)
    return ListColumn(offsets, column.values[shift + np.arange(offsets[-1])])
