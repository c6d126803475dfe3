"""Spans as arrays, and those shorter than a pixel merged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.row_groups import rows_among

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowSpans:
    """Spans in order of start; arrays of shape (spans,)."""

    row: Values  # row in the trace's events; -1 for merged spans
    parent: Values  # row of the parent in the trace's events, or -1
    thread: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]  # row in names; -1 for Python calls without a name
    frame: npt.NDArray[np.int32]  # row in frames, -1 for none
    kind: npt.NDArray[np.uint8]
    start_ns: Values
    duration_ns: Values
    is_async: npt.NDArray[np.bool_]
    unfinished: npt.NDArray[np.bool_]
    merged: npt.NDArray[np.int32]  # number of represented spans; 0: only itself

    def __len__(self) -> int:
        return len(self.row)

    @property
    def end_ns(self) -> Values:
        """End of each span, Unix nanoseconds."""
        return self.start_ns + self.duration_ns

    def take(self, rows: npt.NDArray[Any]) -> WindowSpans:
        """Spans in these rows, or with these flags."""
        return WindowSpans(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def replaced(self, **columns: Any) -> WindowSpans:
        """Copy with some columns replaced."""
        return WindowSpans(**{one.name: getattr(self, one.name) for one in fields(self)} | columns)

    @staticmethod
    def joined(parts: list[WindowSpans]) -> WindowSpans:
        """Spans of all parts in order of start; longer ones first if they start together."""
        columns = {
            one.name: np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(WindowSpans)
        }
        spans = WindowSpans(**columns)
        return spans.take(np.lexsort((-spans.duration_ns, spans.start_ns)))


def merged_below(spans: WindowSpans, least_ns: int, unmerged_rows: Values) -> WindowSpans:
    """``spans`` with those shorter than ``least_ns`` merged.

    Args:
        spans: spans of all threads, in order of start.
        least_ns: shortest duration of an unmerged span.
        unmerged_rows: rows of unmerged spans that are not in ``spans``, ascending.
    """
    is_long = spans.duration_ns >= least_ns
    kept = spans.take(is_long)
    kept_rows = np.union1d(kept.row[kept.row >= 0], unmerged_rows)
    outer = ~is_long & ((spans.parent < 0) | (rows_among(kept_rows, spans.parent) >= 0))
    short = spans.take(outer)
    if not len(short):
        return kept
    cell = short.start_ns // max(least_ns, 1)
    order = np.lexsort((-short.duration_ns, cell, short.parent, short.thread))
    short, cell = short.take(order), cell[order]
    begins = np.ones(len(short), dtype=np.bool_)
    begins[1:] = (
        (cell[1:] != cell[:-1])
        | (short.parent[1:] != short.parent[:-1])
        | (short.thread[1:] != short.thread[:-1])
    )
    first = np.flatnonzero(begins)
    start = np.minimum.reduceat(short.start_ns, first)
    longest = short.take(first)  # of each group
    groups = longest.replaced(
        row=np.full(len(first), -1, dtype=np.int64),
        start_ns=start,
        duration_ns=np.maximum.reduceat(short.end_ns, first) - start,
        unfinished=np.zeros(len(first), dtype=np.bool_),
        merged=np.add.reduceat(np.maximum(short.merged, 1), first).astype(np.int32),
    )
    return WindowSpans.joined([kept, groups])


def no_spans() -> WindowSpans:
    """No span."""
    dtypes = {"thread": np.int32, "name": np.int32, "frame": np.int32, "kind": np.uint8,
              "is_async": np.bool_, "unfinished": np.bool_, "merged": np.int32}  # fmt: skip
    return WindowSpans(
        **{
            one.name: np.zeros(0, dtype=dtypes.get(one.name, np.int64))
            for one in fields(WindowSpans)
        }
    )
