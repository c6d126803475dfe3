"""A trace on disk that need not fit in memory: read by groups of rows, or between two moments."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.arrow import pa
from opscope.base.input_file import checked_in_folder
from opscope.base.memory_limit import require_memory
from opscope.columns.concat import joined
from opscope.columns.names import Names
from opscope.columns.part import part_from
from opscope.columns.row_groups import rows_among
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import without_unknown_codes
from opscope.columns.validate import TableChecks, checked_trace
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.interop import column_from_arrow, table_from_arrow, to_arrow
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
"""Tables that grow with a recording; the others grow with the program, and are read as a whole."""

_BYTES_PER_EVENT = 150  # about what an event takes in memory, with its rows in other tables
_NOTHING = TraceData({}, Names.from_strings([]))

LAST_NS = 50_000_000  # so much of the end of a recording says what its threads were doing


@dataclass(frozen=True)
class Slice:
    """Events that ran in a part of a recording.

    Attributes:
        trace: that part; of the tables that grow with a recording, it has the events.
        carried: how many of its events, the first, had begun before.
        begin_ns: when it begins, Unix time.
        end_ns: when it ends.
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
        found = LongTrace(choose_part(path, part))
        if "events" not in found.rows:
            raise TraceFormatError(
                f"{path} contains no events. Check the path; `opscope summary` shows its contents."
            )
        return found

    @cached_property
    def _tables(self) -> Mapping[str, Mapping[str, int]]:
        _ = self._written
        return read_manifest(self.folder).tables

    @cached_property
    def _written(self) -> object:
        """Another where another trace was written to this folder."""
        return self._manifest_now()

    def _manifest_now(self) -> object:
        try:
            found = (self.folder / MANIFEST).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns

    @property
    def rows(self) -> dict[str, int]:
        """By name of the table."""
        return {name: table["rows"] for name, table in self._tables.items()}

    def memory_bytes(self, *tables: str) -> int:
        """Bytes of the columns of tables in memory; of all tables by default."""
        known = self._tables
        return sum(known[name]["memory_bytes"] for name in tables or known if name in known)

    @cached_property
    def small(self) -> TraceData:
        """Tables that do not grow with the recording: names, threads, ledger, metadata, others."""
        tables = {name: self._whole(name) for name in TABLES if name in self.rows}
        with damage_of(self.file("names")), self._opened("names") as file:
            names = names_in(file.read())
        TableChecks(tables, names, str(self.folder)).check_whole(
            [name for name in tables if name not in GROWING]
        )
        return TraceData({name: tables[name] for name in tables if name not in GROWING}, names)

    def _whole(self, name: str) -> Table:
        """A table that does not grow; of another as many rows as it has, without columns."""
        if name in GROWING:
            return Table.lazy(TABLES[name], {}, self.rows[name])
        with damage_of(self.file(name)), self._opened(name) as file:
            return _known(table_from_arrow(TABLES[name], file.read()))

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
        """Row of the first, and the rows of each group, in order; by default of all.

        Raises:
            TraceFormatError: the file is damaged.
        """
        if table not in self.rows:
            return
        with damage_of(self.file(table)), self._opened(table) as file:
            schema, there = TABLES[table], set(file.schema_arrow.names)
            known = None if columns is None else [name for name in columns if name in there]
            first = 0
            for group in range(file.num_row_groups):
                if wanted is None or group in wanted:
                    rows = file.read_row_group(group, columns=known)
                    found = (
                        table_from_arrow(schema, rows)
                        if known is None
                        else Table(schema, {k: column_from_arrow(schema, rows, k) for k in known})
                    )
                    yield first, _known(found)
                first += file.metadata.row_group(group).num_rows

    def columns(self, names: Sequence[str]) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Columns of the events, group by group, in order."""
        for _, rows in self.groups("events", names):
            yield {name: rows[name] for name in names}

    def datasets(self) -> dict[str, Any]:
        """The tables that grow with the recording, to be read as they are needed.

        Columns that a file does not have are null.
        """
        # Takes as long to import as all other of Arrow.
        from pyarrow.dataset import dataset

        found = {}
        for name in self.on_disk:
            with damage_of(self.file(name)):
                there = dataset(self.file(name))
                fields, known = to_arrow(_NOTHING, name, text=False).schema, there.schema.names
                missing = [one for one in fields if one.name not in known]
                found[name] = there.replace_schema(pa.schema([*there.schema, *missing]))
        return found

    @property
    def on_disk(self) -> list[str]:
        """Tables that grow with the recording, of those that it has."""
        return [name for name in GROWING if name in self.rows]

    def slices(self, events: int, columns: Sequence[str] | None = None) -> Iterator[Slice]:
        """Yield all events in order, about ``events`` at a time. A span is in each slice that it
        runs in, cut at the slice's bounds. ``columns``: the columns to read; None for all."""
        carried_rows = np.zeros(0, dtype=np.int64)
        carried = Table(TABLES["events"], {})
        last, end_ns = self.rows["events"], 0
        for first, new in self._gathered(events, columns):
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
            part = self.small.with_tables({"events": table.replaced(changed)})
            checked_trace(part, str(self.folder))
            yield Slice(part, len(carried), begin_ns, end_ns)
            kept = np.flatnonzero(end > end_ns)
            carried_rows, carried = rows[kept], table.take(kept)

    def _gathered(self, events: int, columns: Sequence[str] | None) -> Iterator[tuple[int, Table]]:
        """Groups of rows joined until there are that many events."""
        parts: list[Table] = []
        begin = 0
        for first, rows in self.groups("events", columns):
            parts.append(rows)
            many = sum(map(len, parts))
            if many >= events or (many and first + len(rows) == self.rows["events"]):
                yield begin, joined(parts, "events")
                begin, parts = first + len(rows), []

    def of_steps(self, first: int, last: int) -> tuple[int, int]:
        """From when until when these steps ran, Unix time."""
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
        """Start of the first and of the last event; Unix time."""
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
        """Start of the first event and end of the last one; Unix time."""
        found = [
            (int(rows["start_ns"][0]), int((rows["start_ns"] + rows["duration_ns"]).max()))
            for _, rows in self.groups("events", ["start_ns", "duration_ns"])
            if len(rows)
        ]
        begins, ends = [begin for begin, _ in found], [end for _, end in found]
        return min(begins, default=0), max(ends, default=0)

    def between(self, begin_ns: int, end_ns: int) -> TraceData:
        """Trace of the time between two moments; spans are cut there.

        Raises:
            InsufficientMemoryError: that does not fit in memory.
            UsageError: nothing ran then.
        """
        found = self._rows_between(begin_ns, end_ns)
        if not len(found):
            first, last = self.span_ns
            raise UsageError(
                f"There are no events between {begin_ns} and {end_ns}. Choose a range between 0 "
                f"and {(last - first) / 1e9:.3f} seconds."
            )
        return self.of_rows(found, begin_ns, end_ns)

    def of_rows(self, found: Values, begin_ns: int, end_ns: int) -> TraceData:
        """Some events, by row, ascending, and all that is known of them and of that time.

        Raises:
            InsufficientMemoryError: that does not fit in memory.
            TraceFormatError: it is damaged.
        """
        require_memory(len(found) * _BYTES_PER_EVENT, f"reading {len(found):,} events")
        tables = {name: _referring(self.small.table(name), found) for name in TABLES}
        tables |= {name: joined(list(self._about(found, name)), name) for name in self.on_disk}
        part = part_from(TraceData(tables, self.small.names), begin_ns, end_ns).trace
        part = part.with_metadata(_bounds_of_part(part.metadata, begin_ns, end_ns))
        return checked_trace(part, str(self.folder))

    def _rows_between(self, begin_ns: int, end_ns: int) -> Values:
        found = [np.zeros(0, dtype=np.int64)]
        for first, rows in self.groups("events", ["start_ns", "duration_ns"]):
            start = rows["start_ns"]
            end = start + rows["duration_ns"]
            inside = ((end > begin_ns) | (start >= begin_ns)) & (start < end_ns)
            found.append(np.flatnonzero(inside) + first)
        return np.concatenate(found)

    def _about(self, found: Values, name: str) -> Iterator[Table]:
        """The rows that are or refer to these events, or to none."""
        if name not in self.rows:
            return
        with damage_of(self.file(name)), self._opened(name) as file:
            first = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if name == "events":
                    begin, end = np.searchsorted(found, [first, first + rows])
                    kept = found[begin:end] - first
                elif (event := _events_of(file, group, found)) is None:
                    kept = found[:0]
                else:
                    kept = np.flatnonzero((rows_among(found, event) >= 0) | (event < 0))
                if len(kept):
                    table = table_from_arrow(TABLES[name], file.read_row_group(group))
                    yield _referring(_known(table.take(kept)), found)
                first += rows

    def file(self, table: str) -> Path:
        """Path of the file of a table.

        Raises:
            TraceFormatError: the trace was replaced since the first was asked for.
        """
        complete(self.folder)
        if self._manifest_now() != self._written:
            raise TraceFormatError(
                f"{self.folder} was replaced or removed while it was read. Open it again."
            )
        file = self.folder / f"{table}.parquet"
        with damage_of(file):
            return checked_in_folder(file)


def _known(table: Table) -> Table:
    """The table as this version understands it, which a trace read as a whole has as well."""
    name = table.schema.name
    return without_unknown_codes({name: table})[0][name]


def _events_of(file: Any, group: int, found: Values) -> Any:
    """The event of each row of a group; None where its statistics say that it is none of these."""
    about = file.metadata.row_group(group)
    columns = (about.column(place) for place in range(about.num_columns))
    known = next((column for column in columns if column.path_in_schema == "event"), None)
    if known is None:  # then the rows are of no event
        return np.full(about.num_rows, -1, dtype=np.int64)
    range_ = known.statistics
    if range_ is not None and range_.has_min_max and range_.min >= 0:
        begin, end = np.searchsorted(found, [range_.min, range_.max + 1])
        if begin == end:
            return None
    return file.read_row_group(group, columns=["event"])["event"].to_numpy()


def end_of_trace(path: Path) -> TraceData:
    """The last moments of a trace on disk, with all that is known of the recording."""
    trace = LongTrace.at(path)
    _, end_ns = trace.span_ns
    return trace.between(end_ns - LAST_NS, end_ns + 1)


def _bounds_of_part(metadata: Mapping[str, Any], begin_ns: int, end_ns: int) -> dict[str, int]:
    """Begin and end of a part, from the recording's metadata.

    The end is given on two clocks, which align the recordings of several processes.
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


def _referring(table: Table, found: Values) -> Table:
    """A table whose references to events are rows of the part with these events."""
    refer = [one.name for one in table.schema.columns if one.refers == "events"]
    if not refer or not len(table):
        return table
    return table.replaced({name: rows_among(found, table[name]) for name in refer})


def _parents(
    parent: npt.NDArray[np.int32], carried_rows: Values, first: int
) -> npt.NDArray[np.int32]:
    """Parents in a slice: of events from row ``first`` on, behind those that are carried."""
    moved = np.where(parent >= first, parent - np.int32(first - len(carried_rows)), np.int32(-1))
    before = np.flatnonzero((parent >= 0) & (parent < first))
    if len(carried_rows):
        moved[before] = rows_among(carried_rows, parent[before])
    return moved
