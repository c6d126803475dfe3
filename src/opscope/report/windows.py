"""The spans of a window of a long trace, at the resolution of a screen.

A screen some thousand pixels wide cannot show ten million spans. In a window, spans that are too
short to be seen are merged: those with the same parent that begin in the same pixel become one,
named after the longest of them. One pass over the trace keeps what windows of more than about a
thousandth of the recording show; a narrower window is read from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.cached_property import cached_property
from opscope.base.progress import tell
from opscope.columns.part import part_of
from opscope.columns.row_groups import rows_among
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.columns.validate import checked_trace
from opscope.storage.long_trace import LongTrace
from opscope.timeline.tree.frame_text import MODULE_PREFIX, frame_text, module_names

Values = npt.NDArray[np.int64]
Merged = npt.NDArray[np.int32]
"""Of each event of a window how many it stands for, with all that they called; 0: itself."""

IsWanted = Callable[[list[str]], npt.NDArray[np.bool_]]
"""Which of these names of spans are searched for."""

_FINEST = 1 << 20
"""Parts of the recording; spans at least as long as one are kept in memory, each by itself."""

_MOST_KEPT = 4_000_000
"""WindowSpans in memory, about 50 bytes each."""

_MOST_IN_FULL = 100_000
"""WindowSpans of a window that none is merged of, and that arguments and tensors are read for."""

_COLUMNS = ("thread", "parent", "name", "kind", "start_ns", "duration_ns", "is_async", "unfinished")


@dataclass(frozen=True)
class WindowSpans:
    """WindowSpans in order of start; arrays of shape (spans,)."""

    row: Values  # in the trace's events; -1 for merged spans
    parent: Values  # likewise
    thread: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]  # row in names; of Python calls without a name -1
    frame: npt.NDArray[np.int32]  # row in frames, -1 for none
    kind: npt.NDArray[np.uint8]
    start_ns: Values
    duration_ns: Values
    is_async: npt.NDArray[np.bool_]
    unfinished: npt.NDArray[np.bool_]
    merged: npt.NDArray[np.int32]  # how many spans it stands for, with all that they called; 0: one

    def __len__(self) -> int:
        return len(self.row)

    @property
    def end_ns(self) -> Values:
        """End of each span, Unix time."""
        return self.start_ns + self.duration_ns

    def take(self, rows: npt.NDArray[Any]) -> WindowSpans:
        """Spans in these rows, or with these flags."""
        return WindowSpans(**{one.name: getattr(self, one.name)[rows] for one in fields(self)})

    def replaced(self, **columns: Any) -> WindowSpans:
        """Copy with some columns replaced."""
        return WindowSpans(**{one.name: getattr(self, one.name) for one in fields(self)} | columns)

    @staticmethod
    def joined(parts: list[WindowSpans]) -> WindowSpans:
        """Spans of all parts in order of start; of those with equal start, the longest first."""
        columns = {
            one.name: np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(WindowSpans)
        }
        found = WindowSpans(**columns)
        return found.take(np.lexsort((-found.duration_ns, found.start_ns)))


def merged_below(spans: WindowSpans, least_ns: int, around: Values) -> WindowSpans:
    """The spans with those shorter than ``least_ns`` merged.

    Args:
        spans: of all threads, in order of start.
        least_ns: the shortest that is kept by itself.
        around: rows of spans that are kept and not among ``spans``, ascending.
    """
    is_long = spans.duration_ns >= least_ns
    kept = spans.take(is_long)
    kept_rows = np.union1d(kept.row[kept.row >= 0], around)
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


@dataclass
class Occurrences:
    """Number of occurrences of each label, and where they are."""

    count: Values  # shape (labels,)
    duration_ns: npt.NDArray[np.float64]  # sums of a damaged trace exceed 64 bits
    groups: list[npt.NDArray[np.intp]]  # by group of rows the labels that occur in it


@dataclass(frozen=True)
class Found:
    """Spans of the names that were searched for."""

    count: int
    duration_ns: int
    next: tuple[int, int] | None  # when the nearest one begins and ends


class Windows:
    """The spans of a trace on disk, window by window."""

    def __init__(self, trace: LongTrace) -> None:
        """Reads the trace once; that takes half a second per million spans or less."""
        self._trace, self.small = trace, trace.small
        self._names, self._frames = len(self.small.names), _Frames(trace)
        self._begin: list[int] = []  # of each group of rows: when its first span begins,
        self._last: list[int] = []  # and when its last one begins
        self.begin_ns, self.end_ns = trace.first_and_last_ns  # the end is known when all is read
        self.least_ns = max((self.end_ns - self.begin_ns) // _FINEST, 1)
        labels = self._names + len(self.small.table("frames"))
        self.occurrences = Occurrences(np.zeros(labels, dtype=np.int64), np.zeros(labels), [])
        self._kept = self._read_all()
        if len(gpu := self.small.table("gpu")):
            self.begin_ns = min(self.begin_ns, int(gpu["start_ns"].min()))
            self.end_ns = max(self.end_ns, int((gpu["start_ns"] + gpu["duration_ns"]).max()))
        while len(self._kept) > _MOST_KEPT:
            self.least_ns *= 4
            self._kept = merged_below(self._kept, self.least_ns, np.zeros(0, dtype=np.int64))

    @property
    def spans(self) -> int:
        """Number of spans in the trace."""
        return self._trace.rows["events"]

    def _read_all(self) -> WindowSpans:
        parts, open_spans = [], _none()
        for spans in self._groups(None):
            self._count(spans)
            around = np.sort(open_spans.row[open_spans.row >= 0])
            part = merged_below(spans, self.least_ns, around)
            self.end_ns = max(self.end_ns, int(spans.end_ns.max(initial=self.begin_ns + 1)))
            begins = int(spans.start_ns[-1]) if len(spans) else 0
            open_spans = WindowSpans.joined([open_spans, part])
            open_spans = open_spans.take((open_spans.end_ns > begins) & (open_spans.row >= 0))
            parts.append(part)
        return WindowSpans.joined(parts) if parts else _none()

    def _count(self, spans: WindowSpans) -> None:
        label, found = self.labels_of(spans), self.occurrences
        size = len(found.count)
        count = np.bincount(label, minlength=size)
        found.count += count
        weight = np.bincount(label, weights=spans.duration_ns.astype(np.float64), minlength=size)
        found.duration_ns += weight
        found.groups.append(np.flatnonzero(count))
        self._begin.append(int(spans.start_ns[0]) if len(spans) else self.end_ns)
        self._last.append(int(spans.start_ns[-1]) if len(spans) else self.begin_ns)

    def labels_of(self, spans: WindowSpans) -> Values:
        """Row in names of each span, or of its frame after all names."""
        last = len(self.occurrences.count) - 1
        framed = np.clip(self._names + spans.frame, 0, last)
        named = np.clip(spans.name, 0, last)
        return np.where((spans.name >= 0) | (spans.frame < 0), named, framed)

    def _groups(self, wanted: Container[int] | None) -> Iterator[WindowSpans]:
        """The spans of groups of rows, by default of all."""
        for first, rows in self._trace.groups("events", _COLUMNS, wanted):
            if wanted is None:
                tell(first, self.spans)
            yield self._spans(first, rows)

    def _spans(self, first: int, events: Table) -> WindowSpans:
        count = len(events)
        return WindowSpans(
            row=np.arange(first, first + count),
            parent=events["parent"].astype(np.int64),
            thread=events["thread"],
            name=events["name"],
            frame=self._frames.of(first, count),
            kind=events["kind"],
            start_ns=events["start_ns"],
            duration_ns=np.maximum(events["duration_ns"], 0),
            is_async=events["is_async"],
            unfinished=events["unfinished"],
            merged=np.zeros(count, dtype=np.int32),
        )

    def window(self, begin_ns: int, end_ns: int, least_ns: int) -> tuple[TraceData, Merged, int]:
        """Spans that run between two moments, Unix time; spans shorter than ``least_ns`` are
        merged.

        Also returns how many each event stands for, and below how many nanoseconds spans were
        merged: 0 where they are few enough.
        """
        spans, least_ns = self.between(begin_ns, end_ns, least_ns)
        return self.trace_of(spans), spans.merged, least_ns

    def find(self, predicate: IsWanted, moment_ns: int, backwards: bool = False) -> Found:
        """Find all spans whose name matches, and the nearest one after (or before) a moment.

        From the first one on again where there is none.
        """
        labels, known = np.flatnonzero(predicate(self._texts)), self.occurrences
        return Found(
            int(known.count[labels].sum()),
            int(known.duration_ns[labels].sum()),
            self.next_of(labels, moment_ns, backwards),
        )

    @cached_property
    def _texts(self) -> list[str]:
        """Text that the page shows for each label."""
        modules, frames = module_names(self.small), range(len(self.small.table("frames")))
        numbered = (name.removeprefix(MODULE_PREFIX) for name in self.small.names)
        names = (
            modules[module].text if module in modules else name
            for name, module in zip(self.small.names, numbered, strict=True)
        )
        return [*names, *(frame_text(self.small, frame) for frame in frames)]

    def between(self, begin_ns: int, end_ns: int, least_ns: int) -> tuple[WindowSpans, int]:
        """Spans that run between two moments, Unix time; spans shorter than ``least_ns`` are
        merged.

        Also returns below how many nanoseconds spans were merged: 0 where they are few enough.
        """
        known, nothing = self._kept, np.zeros(0, dtype=np.int64)
        runs = (known.end_ns > begin_ns) & (known.start_ns < end_ns)
        if least_ns >= self.least_ns:
            found = known.take(runs)
            if len(found) <= _MOST_IN_FULL and not found.merged.any():
                return found, 0
            return merged_below(found, least_ns, nothing), least_ns
        begins, lasts = np.array(self._begin), np.array(self._last)
        # A span that began earlier and is in no memory by itself is shorter than that.
        near = np.flatnonzero((lasts >= begin_ns - self.least_ns) & (begins < end_ns))
        read = [
            spans.take((spans.end_ns > begin_ns) & (spans.start_ns < end_ns))
            for spans in self._groups(frozenset(near.tolist()))
        ]
        read_rows = np.concatenate([spans.row for spans in read]) if read else nothing
        earlier = known.take(runs & (known.row >= 0) & (rows_among(read_rows, known.row) < 0))
        found = WindowSpans.joined([earlier, *read])
        if len(found) <= _MOST_IN_FULL:
            return found, 0
        return merged_below(found, least_ns, nothing), least_ns

    def next_of(
        self, labels: Values, moment_ns: int, backwards: bool = False
    ) -> tuple[int, int] | None:
        """Begin and end of the nearest span of these labels after (or before) a moment.

        From the first one on again where there is none; None where there is none at all.
        """
        has = [bool(np.isin(labels, there).any()) for there in self.occurrences.groups]
        groups = np.flatnonzero(has)
        begins, lasts = np.array(self._begin), np.array(self._last)
        if backwards:
            earlier = groups[begins[groups] < moment_ns][::-1]
            order = [*earlier, *groups[::-1]]
        else:
            order = [*groups[lasts[groups] > moment_ns], *groups]
        for place, group in enumerate(order):
            spans = next(self._groups(frozenset([int(group)])))
            is_found = np.isin(self.labels_of(spans), labels)
            if place < len(order) - len(groups):
                is_ahead = spans.start_ns < moment_ns if backwards else spans.start_ns > moment_ns
                is_found &= is_ahead
            found = np.flatnonzero(is_found)
            if len(found):
                row = found[-1 if backwards else 0]
                return int(spans.start_ns[row]), int(spans.end_ns[row])
        return None

    def trace_of(self, spans: WindowSpans) -> TraceData:
        """These spans as a trace, with what ran on devices meanwhile.

        Where none is merged, it has all that was recorded of them.
        """
        if len(spans) <= _MOST_IN_FULL and (spans.row >= 0).all() and len(spans):
            ends = int(spans.end_ns.max()) + 1
            return self._trace.of_rows(np.sort(spans.row), int(spans.start_ns[0]), ends)
        of_row = np.flatnonzero(spans.row >= 0)
        order = of_row[np.argsort(spans.row[of_row])]
        rows = spans.row[order]

        def renumbered(events: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
            """Rows of the whole trace as rows of this one; -1 for what is not in it."""
            return np.append(order, -1)[rows_among(rows, events)].astype(np.int32)

        parent = renumbered(spans.parent)
        parent[parent >= np.arange(len(spans))] = -1
        events = {name: getattr(spans, name) for name in _COLUMNS if name != "parent"}
        framed = np.flatnonzero(spans.frame >= 0).astype(np.int32)
        calls = {"event": framed, "frame": spans.frame[framed]}
        begin_ns = int(spans.start_ns[0]) if len(spans) else self.begin_ns
        end_ns = int(spans.end_ns.max(initial=begin_ns)) + 1
        tables = {
            **{name: self.small.table(name) for name in TABLES if not _is_about_events(name)},
            "events": Table(TABLES["events"], {**events, "parent": parent}),
            "python_calls": Table(TABLES["python_calls"], calls),
            "gpu": part_of(self.small.table("gpu"), renumbered, begin_ns, end_ns),
        }
        return checked_trace(TraceData(tables, self.small.names), str(self._trace.folder))


def _is_about_events(table: str) -> bool:
    return any(column.refers == "events" for column in TABLES[table].columns)


class _Frames:
    """The frame of each event of a trace with Python calls."""

    def __init__(self, trace: LongTrace) -> None:
        self._trace = trace
        self._last: list[int] = [
            int(rows["event"].max(initial=-1))
            for _, rows in trace.groups("python_calls", ["event"])
        ]
        self._read: tuple[int, Table] | None = None  # the group that was last read

    def of(self, first: int, count: int) -> npt.NDArray[np.int32]:
        """Row in frames of so many events from the ``first``; -1 where there is none."""
        frame = np.full(count, -1, dtype=np.int32)
        begin = int(np.searchsorted(self._last, first))
        for number in range(begin, len(self._last)):
            calls = self._group(number)
            place = calls["event"].astype(np.int64) - first
            inside = (place >= 0) & (place < count)
            frame[place[inside]] = calls["frame"][inside]
            if self._last[number] >= first + count - 1:
                break
        return frame

    def _group(self, number: int) -> Table:
        if self._read is None or self._read[0] != number:
            wanted = frozenset([number])
            _, rows = next(self._trace.groups("python_calls", ["event", "frame"], wanted))
            self._read = number, rows
        return self._read[1]


def _none() -> WindowSpans:
    dtypes = {"thread": np.int32, "name": np.int32, "frame": np.int32, "kind": np.uint8,
              "is_async": np.bool_, "unfinished": np.bool_, "merged": np.int32}  # fmt: skip
    return WindowSpans(
        **{
            one.name: np.zeros(0, dtype=dtypes.get(one.name, np.int64))
            for one in fields(WindowSpans)
        }
    )
