"""The spans of a window of a long trace, at the resolution of a screen.

A screen cannot show ten million spans. So spans of a window that are shorter than a pixel are
merged: those with the same parent that begin in the same pixel become one, with the name of the
longest. One pass over the trace keeps the spans for windows of more than about a thousandth of the
recording in memory; narrower windows are read from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.cached_property import cached_property
from opscope.base.progress import report_progress
from opscope.columns.part import part_of
from opscope.columns.row_groups import rows_among
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.columns.validate import checked_trace
from opscope.jobs.merged_trace import moved_by, versions_together
from opscope.report.window_spans import WindowSpans, merged_below, no_spans
from opscope.storage.long_trace import LongTrace
from opscope.timeline.tree.frame_text import MODULE_PREFIX, frame_text, module_names

Array = npt.NDArray[Any]
Values = npt.NDArray[np.int64]
Merged = npt.NDArray[np.int32]
"""Number of spans that each event of a window represents, without their callees; 0: only itself."""

NamePredicate = Callable[[list[str]], npt.NDArray[np.bool_]]
"""Whether each of these names matches a search."""

_FINEST_PARTS = 1 << 20
"""Spans of at least the recording's length divided by this are kept in memory unmerged."""

_MOST_KEPT = 4_000_000
"""Spans in memory, about 50 bytes each."""

_COARSER = 32
"""Wide windows begin with spans merged below so many times the least duration in memory."""

_MOST_UNMERGED = 100_000
"""Windows with at most this many spans are shown unmerged, with arguments and tensors."""

_COLUMNS = ("thread", "parent", "name", "kind", "start_ns", "duration_ns", "is_async", "unfinished")


@dataclass
class Occurrences:
    """Number and location of the spans with each label."""

    count: Values  # shape (labels,)
    duration_ns: npt.NDArray[np.float64]  # sums of a damaged trace can exceed 64 bits
    groups: list[npt.NDArray[np.intp]]  # the labels in each group of rows


@dataclass(frozen=True)
class Found:
    """Result of a search for spans."""

    count: int
    duration_ns: int
    next: tuple[int, int] | None  # begin and end of the nearest span


class Windows:
    """The spans of a trace on disk, window by window."""

    def __init__(self, trace: LongTrace, arrays: Mapping[str, Array] | None = None) -> None:
        """Read the trace once, which takes at most half a second per million spans.

        Args:
            trace: the trace.
            arrays: :meth:`arrays` of earlier windows of this trace, to use instead of reading it.

        Raises:
            KeyError: an array is missing.
            ValueError: the arrays are not those of this trace.
        """
        self._trace, self.small = trace, trace.small
        self._names = len(self.small.names)
        self._labels = self._names + len(self.small.table("frames"))
        if arrays is not None:
            return self._restore(arrays)
        self._frames = _Frames.of_trace(trace)
        self._begin: list[int] = []  # start of the first span of each group of rows
        self._last: list[int] = []  # start of the last span of each group of rows
        self.begin_ns, self.end_ns = trace.first_and_last_ns  # _read_all() finds the real end
        self.least_ns = max((self.end_ns - self.begin_ns) // _FINEST_PARTS, 1)
        labels = self._labels
        self.occurrences = Occurrences(np.zeros(labels, dtype=np.int64), np.zeros(labels), [])
        self._kept = self._read_all()
        if len(gpu := self.small.table("gpu")):
            self.begin_ns = min(self.begin_ns, int(gpu["start_ns"].min()))
            self.end_ns = max(self.end_ns, int((gpu["start_ns"] + gpu["duration_ns"]).max()))
        while len(self._kept) > _MOST_KEPT:
            self.least_ns *= 4
            self._kept = merged_below(self._kept, self.least_ns, np.zeros(0, dtype=np.int64))

    def arrays(self) -> dict[str, Array]:
        """Everything that was computed from the trace."""
        kept = {one.name: getattr(self._kept, one.name) for one in fields(WindowSpans)}
        groups = self.occurrences.groups
        bounds = [self.begin_ns, self.end_ns, self.least_ns]
        return {
            **{f"kept_{name}": column for name, column in kept.items()},
            "bounds_ns": np.array(bounds, dtype=np.int64),
            "begin_ns": np.array(self._begin, dtype=np.int64),
            "last_ns": np.array(self._last, dtype=np.int64),
            "last_calls": np.array(self._frames.last, dtype=np.int64),
            "count": self.occurrences.count,
            "total_ns": self.occurrences.duration_ns,
            "labels": np.concatenate([np.zeros(0, dtype=np.intp), *groups]),
            "labels_of_group": np.array([len(one) for one in groups], dtype=np.int64),
        }

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        kept = {one.name: arrays[f"kept_{one.name}"] for one in fields(WindowSpans)}
        dtypes = {f"kept_{name}": column.dtype for name, column in vars(no_spans()).items()}
        limits = {
            "row": self.spans,
            "parent": self.spans,
            "thread": len(self.small.table("threads")),
            "name": self._names,
            "frame": self._labels - self._names,
        }
        groups = arrays["begin_ns"].size
        if (
            {array.ndim for array in arrays.values()} != {1}
            or any(
                arrays[name].dtype != dtypes.get(name, np.int64)
                for name in arrays.keys() - {"total_ns"}
            )
            or len({len(column) for column in kept.values()}) != 1
            or any(len(c := kept[n]) and not -1 <= c.min() <= c.max() < limits[n] for n in limits)
            or arrays["count"].shape != (self._labels,)
            or arrays["total_ns"].shape != (self._labels,)
            or arrays["last_ns"].shape != (groups,)
            or arrays["labels_of_group"].shape != (groups,)
        ):
            raise ValueError("these are not the windows of this trace")
        self._kept = WindowSpans(**kept)
        self.begin_ns, self.end_ns, self.least_ns = arrays["bounds_ns"].tolist()
        self._begin, self._last = arrays["begin_ns"].tolist(), arrays["last_ns"].tolist()
        self._frames = _Frames(self._trace, arrays["last_calls"].tolist())
        present = np.split(arrays["labels"], np.cumsum(arrays["labels_of_group"])[:-1])
        self.occurrences = Occurrences(arrays["count"], arrays["total_ns"], present)

    @property
    def spans(self) -> int:
        """Number of spans in the trace."""
        return self._trace.rows["events"]

    def _read_all(self) -> WindowSpans:
        parts, open_spans = [], no_spans()
        for spans in self._groups(None):
            self._count(spans)
            open_rows = np.sort(open_spans.row[open_spans.row >= 0])
            part = merged_below(spans, self.least_ns, open_rows)
            self.end_ns = max(self.end_ns, int(spans.end_ns.max(initial=self.begin_ns + 1)))
            begins = int(spans.start_ns[-1]) if len(spans) else 0
            open_spans = WindowSpans.joined([open_spans, part])
            open_spans = open_spans.take((open_spans.end_ns > begins) & (open_spans.row >= 0))
            parts.append(part)
        return WindowSpans.joined(parts) if parts else no_spans()

    def _count(self, spans: WindowSpans) -> None:
        label, occurrences = self.labels_of(spans), self.occurrences
        size = len(occurrences.count)
        count = np.bincount(label, minlength=size)
        occurrences.count += count
        weight = np.bincount(label, weights=spans.duration_ns.astype(np.float64), minlength=size)
        occurrences.duration_ns += weight
        occurrences.groups.append(np.flatnonzero(count))
        self._begin.append(int(spans.start_ns[0]) if len(spans) else self.end_ns)
        self._last.append(int(spans.start_ns[-1]) if len(spans) else self.begin_ns)

    def labels_of(self, spans: WindowSpans) -> Values:
        """Label of each span: the row of its name, or the row of its frame plus all names."""
        last = len(self.occurrences.count) - 1
        framed = np.clip(self._names + spans.frame, 0, last)
        named = np.clip(spans.name, 0, last)
        return np.where((spans.name >= 0) | (spans.frame < 0), named, framed)

    def _groups(self, wanted: Container[int] | None) -> Iterator[WindowSpans]:
        for first, rows in self._trace.groups("events", _COLUMNS, wanted):
            if wanted is None:
                report_progress(first, self.spans)
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
        """A trace of :meth:`between`, the number of spans that each event represents, and the
        duration below which spans were merged."""
        spans, least_ns = self.between(begin_ns, end_ns, least_ns)
        return self.trace_of(spans), spans.merged, least_ns

    def find(self, predicate: NamePredicate, moment_ns: int, backwards: bool = False) -> Found:
        """Find all spans whose name matches, and the one that :meth:`next_of` returns."""
        labels, occurrences = np.flatnonzero(predicate(self._texts)), self.occurrences
        return Found(
            int(occurrences.count[labels].sum()),
            int(occurrences.duration_ns[labels].sum()),
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
        """Spans that run between two times, Unix nanoseconds. If they are too many, those shorter
        than ``least_ns`` are merged. Also returns the duration below which spans were merged, or 0.
        """
        kept, no_rows = self._kept, np.zeros(0, dtype=np.int64)
        runs = (kept.end_ns > begin_ns) & (kept.start_ns < end_ns)
        if least_ns >= self.least_ns:
            if least_ns >= _COARSER * self.least_ns and np.count_nonzero(runs) > _MOST_UNMERGED:
                kept = self._coarse
                runs = (kept.end_ns > begin_ns) & (kept.start_ns < end_ns)
            chosen = kept.take(runs)
            if len(chosen) <= _MOST_UNMERGED and not chosen.merged.any():
                return chosen, 0
            return merged_below(chosen, least_ns, no_rows), least_ns
        begins, lasts = np.array(self._begin), np.array(self._last)
        # A span that began earlier and is not in memory unmerged is shorter than self.least_ns.
        near_groups = np.flatnonzero((lasts >= begin_ns - self.least_ns) & (begins < end_ns))
        read = [
            spans.take((spans.end_ns > begin_ns) & (spans.start_ns < end_ns))
            for spans in self._groups(frozenset(near_groups.tolist()))
        ]
        read_rows = np.concatenate([spans.row for spans in read]) if read else no_rows
        earlier = kept.take(runs & (kept.row >= 0) & (rows_among(read_rows, kept.row) < 0))
        chosen = WindowSpans.joined([earlier, *read])
        if len(chosen) <= _MOST_UNMERGED:
            return chosen, 0
        return merged_below(chosen, least_ns, no_rows), least_ns

    @cached_property
    def _coarse(self) -> WindowSpans:
        return merged_below(self._kept, _COARSER * self.least_ns, np.zeros(0, dtype=np.int64))

    def next_of(
        self, labels: Values, moment_ns: int, backwards: bool = False
    ) -> tuple[int, int] | None:
        """Begin and end of the nearest span of these labels after (or before) a time.

        If there is none, the search starts again at the first (or last) span. None: no span at all.
        """
        occurs = [bool(np.isin(labels, present).any()) for present in self.occurrences.groups]
        groups = np.flatnonzero(occurs)
        begins, lasts = np.array(self._begin), np.array(self._last)
        if backwards:
            earlier = groups[begins[groups] < moment_ns][::-1]
            order = [*earlier, *groups[::-1]]
        else:
            order = [*groups[lasts[groups] > moment_ns], *groups]
        for index, group in enumerate(order):
            spans = next(self._groups(frozenset([int(group)])))
            is_found = np.isin(self.labels_of(spans), labels)
            if index < len(order) - len(groups):
                is_ahead = spans.start_ns < moment_ns if backwards else spans.start_ns > moment_ns
                is_found &= is_ahead
            matches = np.flatnonzero(is_found)
            if len(matches):
                row = matches[-1 if backwards else 0]
                return int(spans.start_ns[row]), int(spans.end_ns[row])
        return None

    def trace_of(self, spans: WindowSpans) -> TraceData:
        """A trace of these spans, with device activity of that time. If no span is merged, it has
        all recorded data of the spans."""
        if len(spans) <= _MOST_UNMERGED and (spans.row >= 0).all() and len(spans):
            ends = int(spans.end_ns.max()) + 1
            return self._trace.of_rows(np.sort(spans.row), int(spans.start_ns[0]), ends)
        of_row = np.flatnonzero(spans.row >= 0)
        order = of_row[np.argsort(spans.row[of_row])]
        rows = spans.row[order]

        def renumbered(events: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
            """Rows of the whole trace as rows of this one; -1 for events that are not in it."""
            return np.append(order, -1)[rows_among(rows, events)].astype(np.int32)

        parent = renumbered(spans.parent)
        parent[parent >= np.arange(len(spans))] = -1
        events = {name: getattr(spans, name) for name in _COLUMNS if name != "parent"}
        framed = np.flatnonzero(spans.frame >= 0).astype(np.int32)
        calls = {"event": framed, "frame": spans.frame[framed]}
        begin_ns = int(spans.start_ns[0]) if len(spans) else self.begin_ns
        end_ns = int(spans.end_ns.max(initial=begin_ns)) + 1
        tables = {
            **{name: self.small.table(name) for name in TABLES if not _refers_to_events(name)},
            "events": Table(TABLES["events"], {**events, "parent": parent}),
            "python_calls": Table(TABLES["python_calls"], calls),
            "gpu": part_of(self.small.table("gpu"), renumbered, begin_ns, end_ns),
        }
        return checked_trace(TraceData(tables, self.small.names), str(self._trace.folder))


def _refers_to_events(table: str) -> bool:
    return any(column.refers == "events" for column in TABLES[table].columns)


class _Frames:
    """The frame of each Python call of a trace."""

    def __init__(self, trace: LongTrace, last: list[int]) -> None:
        self._trace = trace
        self.last = last  # the last event of each group of calls
        self._read: tuple[int, Table] | None = None  # the last group that was read

    @staticmethod
    def of_trace(trace: LongTrace) -> _Frames:
        """Read the events of all calls."""
        groups = trace.groups("python_calls", ["event"])
        return _Frames(trace, [int(rows["event"].max(initial=-1)) for _, rows in groups])

    def of(self, first: int, count: int) -> npt.NDArray[np.int32]:
        """Row in frames of ``count`` events from ``first`` on; -1 for events without a frame."""
        frame = np.full(count, -1, dtype=np.int32)
        first_group = int(np.searchsorted(self.last, first))
        for number in range(first_group, len(self.last)):
            calls = self._group(number)
            offset = calls["event"].astype(np.int64) - first
            inside = (offset >= 0) & (offset < count)
            frame[offset[inside]] = calls["frame"][inside]
            if self.last[number] >= first + count - 1:
                break
        return frame

    def _group(self, number: int) -> Table:
        if self._read is None or self._read[0] != number:
            wanted = frozenset([number])
            _, rows = next(self._trace.groups("python_calls", ["event", "frame"], wanted))
            self._read = number, rows
        return self._read[1]


class WindowsOfTwo:
    """:class:`Windows` of an old and a new version, in the time of the new one."""

    def __init__(self, old: Windows, new: Windows, names: Sequence[str]) -> None:
        """``names``: names of the versions on the page."""
        self._pair, self._names = (old, new), names
        self._shifts_ns = new.begin_ns - old.begin_ns, 0
        self.begin_ns = new.begin_ns
        self.end_ns = max(
            one.end_ns + shift for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        )

    def window(self, begin_ns: int, end_ns: int, least_ns: int) -> tuple[TraceData, Merged, int]:
        """Spans of both versions; see :meth:`Windows.window`."""
        parts = [
            one.window(begin_ns - shift, end_ns - shift, least_ns)
            for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        ]
        shifts = self._shifts_ns
        traces = [moved_by(trace, ns) for (trace, *_), ns in zip(parts, shifts, strict=True)]
        starts = np.concatenate([trace.events["start_ns"] for trace in traces])
        merged = np.concatenate([merged for _, merged, _ in parts])
        order = np.argsort(starts, kind="stable")  # the order of events in versions_together()
        least = max(least for *_, least in parts)
        return versions_together(traces, self._names), merged[order], least

    def find(self, predicate: NamePredicate, moment_ns: int, backwards: bool = False) -> Found:
        """Spans of both versions; see :meth:`Windows.find`."""
        results = [
            (one.find(predicate, moment_ns - shift, backwards), shift)
            for one, shift in zip(self._pair, self._shifts_ns, strict=True)
        ]
        nexts = [
            (one.next[0] + shift, one.next[1] + shift)
            for one, shift in results
            if one.next is not None
        ]

        def far(span: tuple[int, int]) -> tuple[bool, int]:
            ahead_ns = (moment_ns - span[0]) if backwards else (span[0] - moment_ns)
            return ahead_ns <= 0, ahead_ns  # spans behind come after those ahead

        return Found(
            sum(one.count for one, _ in results),
            sum(one.duration_ns for one, _ in results),
            min(nexts, key=far, default=None),
        )
