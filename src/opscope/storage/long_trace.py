"""A trace on disk that need not fit in memory: read by row groups, or for a period."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.input_file import checked_in_folder
from opscope.base.memory_limit import require_memory
from opscope.columns.concat import joined
from opscope.columns.part import part_from
from opscope.columns.row_groups import rows_among
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import without_unknown_codes
from opscope.columns.validate import check_tables, checked_trace
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.interop import column_from_arrow, table_from_arrow
from opscope.storage.manifest import MANIFEST, read_manifest
from opscope.storage.parquet import damage_of, names_in, pq
from opscope.storage.partition import Partition, choose_part
from opscope.storage.remote import complete

Values = npt.NDArray[np.int64]

GROWING = (
    "events",
    "tensors",
    "scalars",
    "allocations",
    "python_calls",
    "operator_calls",
    "script_calls",
)
"""Tables whose size grows with a recording; the others grow with the program and are read whole."""

_BYTES_PER_EVENT = 150  # approximate memory of an event, with its rows in other tables

LAST_NS = 50_000_000  # the last part of a recording that shows what its threads were doing


@dataclass(frozen=True)
class Slice:
    """Events that ran in a part of a recording.

    Attributes:
        trace: the part; of the tables with rows about events, it has only the events.
        carried: number of its events, the first ones, that began before the part.
        begin_ns: begin, Unix time.
        end_ns: end, Unix time.
    """

    trace: TraceData
    carried: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class LongTrace:
    """One part of a trace folder."""

    folder: Path

    @staticmethod
    def at(path: Path, part: Partition | None = None) -> LongTrace:
        """One part of the trace in ``path``, which may also be the part's own folder."""
        trace = LongTrace(choose_part(path, part))
        if "events" not in trace.rows:
            raise TraceFormatError(
                f"{path} contains no events. Check the path; `opscope summary` shows its contents."
            )
        return trace

    @cached_property
    def _tables(self) -> Mapping[str, Mapping[str, int]]:
        _ = self._written
        return read_manifest(self.folder).tables

    @cached_property
    def _written(self) -> object:
        """Identity of the manifest at the first access, to detect a replaced trace."""
        return self._manifest_now()

    def _manifest_now(self) -> object:
        try:
            status = (self.folder / MANIFEST).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows by table."""
        return {name: table["rows"] for name, table in self._tables.items()}

    def memory_bytes(self, *tables: str) -> int:
        """Bytes of the columns of tables in memory; of all tables by default."""
        sizes = self._tables
        return sum(sizes[name]["memory_bytes"] for name in tables or sizes if name in sizes)

    @cached_property
    def small(self) -> TraceData:
        """Tables that do not grow with the recording: names, threads, ledger, metadata, others."""
        tables = {name: self._whole(name) for name in TABLES if name in self.rows}
        with damage_of(self.file("names")), self._opened("names") as file:
            names = names_in(file.read())
        small = {name: table for name, table in tables.items() if name not in GROWING}
        check_tables(tables, names, str(self.folder), small)
        return TraceData(small, names)

    def _whole(self, name: str) -> Table:
        """A table that does not grow; of a growing table its row count, without columns."""
        if name in GROWING:
            return Table.without_columns(TABLES[name], self.rows[name])
        with damage_of(self.file(name)), self._opened(name) as file:
            return _without_unknown(table_from_arrow(TABLES[name], file.read()))

    @contextmanager
    def _opened(self, table: str) -> Iterator[Any]:
        with pq.ParquetFile(self.file(table)) as file:
            if file.metadata.num_rows != self.rows[table]:
                raise ValueError(
                    f"it has {file.metadata.num_rows:,} rows, the manifest another number"
                )
            yield file

    def groups(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        wanted: Container[int] | None = None,
    ) -> Iterator[tuple[int, Table]]:
        """Yield the first row and the table of each row group in ``wanted``, by default of all.

        Raises:
            TraceFormatError: the file is damaged.
        """
        if table not in self.rows:
            return
        with damage_of(self.file(table)), self._opened(table) as file:
            schema, present = TABLES[table], set(file.schema_arrow.names)
            names = None if columns is None else [name for name in columns if name in present]
            first = 0
            for group in range(file.num_row_groups):
                if wanted is None or group in wanted:
                    rows = file.read_row_group(group, columns=names)
                    data = (
                        table_from_arrow(schema, rows)
                        if names is None
                        else Table(schema, {k: column_from_arrow(schema, rows, k) for k in names})
                    )
                    yield first, _without_unknown(data)
                first += file.metadata.row_group(group).num_rows

    def columns(self, names: Sequence[str]) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Columns of the events, group by group, in order."""
        for _, rows in self.groups("events", names):
            yield {name: rows[name] for name in names}

    @property
    def on_disk(self) -> list[str]:
        """Growing tables of this trace."""
        return [name for name in GROWING if name in self.rows]

    def slices(self, events: int, columns: Sequence[str] | None = None) -> Iterator[Slice]:
        """Yield all events in order, about ``events`` at a time.

        A span is in each slice that it runs in, cut at the slice's bounds. ``columns``: the columns
        to read; None for all.
        """
        carried_rows = np.zeros(0, dtype=np.int64)
        carried = Table(TABLES["events"], {})
        last, end_ns = self.rows["events"], 0
        without = self.small.with_tables(
            {name: Table(TABLES[name], {}) for name in TABLES if _refers(name)}
        )
        for first, new in self._batches(events, columns):
            rows = np.concatenate([carried_rows, np.arange(first, first + len(new))])
            table = joined([carried, new], "events")
            start, end = table["start_ns"], table["start_ns"] + table["duration_ns"]
            begin_ns = int(start[0]) if first == 0 else end_ns
            is_last = first + len(new) >= last
            end_ns = int(end.max()) if is_last else int(start[-1])
            begins = np.maximum(start, begin_ns)
            changed = {
                "parent": _parents(table["parent"], carried_rows, first),
                "start_ns": begins,
                "duration_ns": np.minimum(end, end_ns) - begins,
            }
            part = without.with_tables({"events": table.replaced(changed)})
            checked_trace(part, str(self.folder))
            yield Slice(part, len(carried), begin_ns, end_ns)
            kept = np.flatnonzero(end > end_ns)
            carried_rows, carried = rows[kept], table.take(kept)

    def _batches(self, events: int, columns: Sequence[str] | None) -> Iterator[tuple[int, Table]]:
        """Row groups joined to at least ``events`` rows."""
        parts: list[Table] = []
        begin = 0
        for first, rows in self.groups("events", columns):
            parts.append(rows)
            count = sum(map(len, parts))
            if count >= events or (count and first + len(rows) == self.rows["events"]):
                yield begin, joined(parts, "events")
                begin, parts = first + len(rows), []

    def of_steps(self, first: int, last: int) -> tuple[int, int]:
        """Begin and end of these steps, Unix time."""
        begin, end, any_step = np.iinfo(np.int64).max, 0, False
        for _, rows in self.groups("events", ["start_ns", "duration_ns", "step"]):
            step, start = rows["step"], rows["start_ns"]
            any_step |= bool((step >= 0).any())
            inside = (step >= first) & (step <= last)
            if inside.any():
                begin = min(begin, int(start[inside].min()))
                end = max(end, int((start + rows["duration_ns"])[inside].max()))
        if not any_step:
            raise UsageError(
                "Events of this recording have no step number: only a schedule and "
                "profile.step() set it. Use --range, in seconds."
            )
        if not end:
            raise UsageError(
                f'No step from {first} to {last} was recorded. `opscope sql TRACE "select '
                'distinct step from events"` lists them.'
            )
        return int(begin), end

    @cached_property
    def first_and_last_ns(self) -> tuple[int, int]:
        """Start of the first and of the last event, Unix time."""
        with damage_of(self.file("events")), self._opened("events") as file:
            first, last = (
                column_from_arrow(
                    TABLES["events"], file.read_row_group(group, columns=["start_ns"]), "start_ns"
                )
                for group in (0, file.num_row_groups - 1)
            )
        return (int(first[0]), int(last[-1])) if len(first) and len(last) else (0, 0)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """Start of the first event and end of the last one, Unix time."""
        spans = [
            (int(rows["start_ns"][0]), int((rows["start_ns"] + rows["duration_ns"]).max()))
            for _, rows in self.groups("events", ["start_ns", "duration_ns"])
            if len(rows)
        ]
        begins, ends = [begin for begin, _ in spans], [end for _, end in spans]
        return min(begins, default=0), max(ends, default=0)

    def between(self, begin_ns: int, end_ns: int) -> TraceData:
        """Trace of a period; spans are cut at its ends.

        Raises:
            InsufficientMemoryError: it does not fit in memory.
            UsageError: nothing ran in the period.
        """
        rows = self._rows_between(begin_ns, end_ns)
        if not len(rows):
            first, last = self.span_ns
            raise UsageError(
                f"There are no events between {begin_ns} and {end_ns}. Choose a range between 0 "
                f"and {(last - first) / 1e9:.3f} seconds."
            )
        return self.of_rows(rows, begin_ns, end_ns)

    def of_rows(self, event_rows: Values, begin_ns: int, end_ns: int) -> TraceData:
        """Trace of some events and a period. ``event_rows``: rows of the events, ascending.

        Raises:
            InsufficientMemoryError: it does not fit in memory.
            TraceFormatError: it is damaged.
        """
        require_memory(len(event_rows) * _BYTES_PER_EVENT, f"reading {len(event_rows):,} events")
        tables = {name: _referring(self.small.table(name), event_rows) for name in TABLES}
        tables |= {name: joined(list(self._about(event_rows, name)), name) for name in self.on_disk}
        part = part_from(TraceData(tables, self.small.names), begin_ns, end_ns).trace
        part = part.with_metadata(_bounds_of_part(part.metadata, begin_ns, end_ns))
        return checked_trace(part, str(self.folder))

    def _rows_between(self, begin_ns: int, end_ns: int) -> Values:
        event_rows = [np.zeros(0, dtype=np.int64)]
        for first, rows in self.groups("events", ["start_ns", "duration_ns"]):
            start = rows["start_ns"]
            end = start + rows["duration_ns"]
            inside = ((end > begin_ns) | (start >= begin_ns)) & (start < end_ns)
            event_rows.append(np.flatnonzero(inside) + first)
        return np.concatenate(event_rows)

    def _about(self, event_rows: Values, name: str) -> Iterator[Table]:
        """The rows that are or refer to these events, or that refer to none."""
        if name not in self.rows:
            return
        with damage_of(self.file(name)), self._opened(name) as file:
            first = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if name == "events":
                    begin, end = np.searchsorted(event_rows, [first, first + rows])
                    selected = event_rows[begin:end] - first
                elif (event := _events_of(file, group, event_rows)) is None:
                    selected = event_rows[:0]
                else:
                    selected = np.flatnonzero((rows_among(event_rows, event) >= 0) | (event < 0))
                if len(selected):
                    table = table_from_arrow(TABLES[name], file.read_row_group(group))
                    table = table.between(selected[0], selected[-1] + 1)
                    if len(selected) < len(table):
                        table = table.take(selected - selected[0])
                    yield _referring(_without_unknown(table), event_rows)
                first += rows

    def file(self, table: str) -> Path:
        """Path of the file of a table.

        Raises:
            TraceFormatError: the trace was replaced after the first access.
        """
        complete(self.folder)
        if self._manifest_now() != self._written:
            raise TraceFormatError(
                f"{self.folder} was replaced or removed while it was read. Open it again."
            )
        file = self.folder / f"{table}.parquet"
        with damage_of(file):
            return checked_in_folder(file)


def _refers(table: str) -> bool:
    return any(column.refers == "events" for column in TABLES[table].columns)


def _without_unknown(table: Table) -> Table:
    """The table without codes unknown to this version, as in a trace read whole."""
    name = table.schema.name
    return without_unknown_codes({name: table})[0][name]


def _events_of(file: Any, group: int, event_rows: Values) -> Any:
    """The event of each row of a group; None if its statistics exclude all of ``event_rows``."""
    group_metadata = file.metadata.row_group(group)
    columns = (group_metadata.column(number) for number in range(group_metadata.num_columns))
    event_column = next((column for column in columns if column.path_in_schema == "event"), None)
    if event_column is None:  # the rows refer to no event
        return np.full(group_metadata.num_rows, -1, dtype=np.int64)
    statistics = event_column.statistics
    if statistics is not None and statistics.has_min_max and statistics.min >= 0:
        begin, end = np.searchsorted(event_rows, [statistics.min, statistics.max + 1])
        if begin == end:
            return None
    return file.read_row_group(group, columns=["event"])["event"].to_numpy()


def end_of_trace(path: Path) -> TraceData:
    """The end of a trace on disk, with all data about the recording."""
    trace = LongTrace.at(path)
    _, end_ns = trace.span_ns
    return trace.between(end_ns - LAST_NS, end_ns + 1)


def _bounds_of_part(metadata: Mapping[str, Any], begin_ns: int, end_ns: int) -> dict[str, int]:
    """Begin and end of a part, from the recording's metadata.

    The end is on two clocks, which align the recordings of several processes.
    """
    start, end, monotonic = map(metadata.get, ("start_ns", "end_ns", "end_monotonic_ns"))
    bounds = {}
    if isinstance(start, int):
        bounds["start_ns"] = max(start, begin_ns)
    if isinstance(end, int):
        bounds["end_ns"] = min(end, end_ns)
        if isinstance(monotonic, int):
            bounds["end_monotonic_ns"] = monotonic + bounds["end_ns"] - end
    return bounds


def _referring(table: Table, event_rows: Values) -> Table:
    """A table whose references to events are rows of the part with these events."""
    references = [column.name for column in table.schema.columns if column.refers == "events"]
    if not references or not len(table):
        return table
    return table.replaced({name: rows_among(event_rows, table[name]) for name in references})


def _parents(
    parent: npt.NDArray[np.int32], carried_rows: Values, first: int
) -> npt.NDArray[np.int32]:
    """Parents in a slice, in which the carried events precede those from row ``first`` on."""
    moved = np.where(parent >= first, parent - np.int32(first - len(carried_rows)), np.int32(-1))
    earlier = np.flatnonzero((parent >= 0) & (parent < first))
    if len(carried_rows):
        moved[earlier] = rows_among(carried_rows, parent[earlier])
    return moved
