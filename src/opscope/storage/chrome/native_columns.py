"""Columns of a Chrome file from the native reader, in file order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.ledger import Doubt
from opscope.columns.table import ListColumn
from opscope.storage.chrome.vocabulary import parsed

LOOKUP_IDS = ("external_id", "correlation_id", "python_id", "python_parent_id")
"""Numbers by which events of one file name each other."""

WITHOUT_SIZE = "memory events have a missing or impossible size, and count as 0 bytes"
ENDS_BEFORE_BEGIN = "spans end before they begin, and have duration 0"

Columns = dict[str, Any]


class CollectedEvents:
    """Everything one file holds; what needs the whole file is left to ``assemble``.

    Attributes:
        texts: name to row of the name table.
        threads: (process, thread) as in the file, of every row of ``threads``.
        thread_names: in the file, "" where there is none.
        processes: names of processes.
        labels: other names of theirs, as in "GPU 0".
        owners: processes of device activities, of which ``gpu["process"]`` is the row.
        spans: columns of them; also of ``allocations``, ``gpu``, ``overheads``, ``tensors`` and
            ``scalars``, of which ``event`` is the row of a span.
        flows: ends of arrows between spans: id, thread, time, 1 for the target, 1 between ranks.
        launch_arrows: ids of ends of arrows from launches to what they launched.
        skipped: how many events were left out, by reason.
        not_shown: how many no table is for, by what they are.
        not_exported: rows of tables that the recording had and the file has no room for.
        marks: rows that say where the profiler that wrote the file began and ended.
        is_cut: the end of the file is missing.
    """

    def __init__(self, reader: _native.ChromeReader) -> None:
        """Take the columns of a file that was read."""
        taken = reader.take()
        self.texts: dict[str, int] = {text: row for row, text in enumerate(taken["texts"])}
        self.threads = [
            (_label(process), _label(thread)) for process, thread, _ in taken["threads"]
        ]
        self.thread_names: list[str] = [name for _, _, name in taken["threads"]]
        self.processes = {_label(process): name for process, name, _ in taken["processes"] if name}
        self.labels = {_label(process): label for process, _, label in taken["processes"] if label}
        self.owners = [_label(process) for process in taken["owners"]]
        self.categories: list[str] = taken["categories"]
        self.spans = _columns(taken["spans"])
        self.allocations = _columns(taken["allocations"])
        self.gpu = _columns(taken["gpu"])
        self.overheads = _columns(taken["overheads"])
        self.tensors = _columns(taken["tensors"])
        self.scalars = _columns(taken["scalars"])
        self.flows = _columns(taken["flows"])
        self.launch_arrows: npt.NDArray[np.int64] = taken["launch_arrows"]
        self.skipped = _skipped(taken)
        self.not_shown = _not_shown(taken)
        self.not_exported: dict[str, int] = {}
        self.doubts = [
            Doubt(ENDS_BEFORE_BEGIN, taken["ends_before_beginning"]),
            Doubt(WITHOUT_SIZE, taken["without_size"], len(self.allocations["time_ns"])),
        ]
        self.is_cut = reader.is_cut
        self.seen: int = taken["seen"]
        self.marks: int = taken["marks"]
        self.without_duration: int = taken["without_duration"]
        self.mended = reader.mended_names
        self.overlaps = self.overlap_ns = 0

    def count_overlaps(self, overlap_ns: npt.NDArray[np.int64]) -> None:
        """Note how long each span overlaps another of its thread, 0 for none."""
        self.overlaps = int(np.count_nonzero(overlap_ns))
        self.overlap_ns = int(overlap_ns.sum())

    def intern(self, text: str) -> int:
        """The row of ``text`` in the name table."""
        return self.texts.setdefault(text, len(self.texts))

    def keep(self, name: str, keep: npt.NDArray[np.bool_]) -> None:
        """Leave out rows of columns, and what is of them."""
        setattr(self, name, rows_of(getattr(self, name), np.flatnonzero(keep)))
        if name != "spans":
            return
        new_row = np.cumsum(keep, dtype=np.int32) - 1
        for of_spans in ("tensors", "scalars"):
            columns = getattr(self, of_spans)
            columns = rows_of(columns, np.flatnonzero(keep[columns["event"]]))
            setattr(self, of_spans, {**columns, "event": new_row[columns["event"]]})

    def of_process(
        self, threads: npt.NDArray[np.bool_], work: npt.NDArray[np.bool_]
    ) -> CollectedEvents:
        """The collected events of one process."""
        found = copy(self)
        found.texts, found.skipped = dict(self.texts), self.skipped.copy()
        found.not_shown, found.doubts = self.not_shown.copy(), [*self.doubts]
        found.overheads = dict(self.overheads)
        found.launch_arrows = self.launch_arrows[:0]  # which are whose is not said
        found.keep("gpu", work)
        for name in ("spans", "allocations", "flows"):
            found.keep(name, threads[getattr(self, name)["thread"]])
        new_row = np.cumsum(threads, dtype=np.int32) - 1
        for name in ("spans", "allocations", "flows"):
            columns = getattr(found, name)
            setattr(found, name, {**columns, "thread": new_row[columns["thread"]]})
        own = np.flatnonzero(threads).tolist()
        found.threads = [self.threads[row] for row in own]
        found.thread_names = [self.thread_names[row] for row in own]
        return found


def rows_of(columns: Columns, rows: npt.NDArray[np.int64]) -> Columns:
    """The given rows of all columns, in the given order."""
    return {
        name: column.take(rows) if isinstance(column, ListColumn) else column[rows]
        for name, column in columns.items()
    }


def _columns(taken: Mapping[str, Any]) -> Columns:
    return {
        name: ListColumn(*column) if isinstance(column, tuple) else column
        for name, column in taken.items()
    }


def _label(label: tuple[str, bool]) -> Any:
    """A process or thread as the file names it: JSON, or text made of a list or an object."""
    text, is_json = label
    return parsed(text) if is_json else text


def _skipped(taken: Mapping[str, Any]) -> Counter[str]:
    skipped: Counter[str] = Counter()
    for why, count in (
        ("no usable time", taken["without_time"]),
        ("an end without a beginning", taken["ends_without_beginning"]),
    ):
        if count:
            skipped[why] = count
    return skipped


def _not_shown(taken: Mapping[str, Any]) -> Counter[str]:
    found = Counter({"instants": taken["other_instants"], "samples of counters": taken["counters"]})
    for what, counts in (("rows of phase", "other_phases"), ("arrows of kind", "other_flows")):
        for text, count in taken[counts]:
            found[f"{what} {text[:20]!r}"] += count
    return +found
