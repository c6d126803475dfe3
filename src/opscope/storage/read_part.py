"""Reading a part of a trace folder: all of it, or columns on use."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from opscope.base.folder_swap import read_unreplaced
from opscope.base.input_file import open_in_folder
from opscope.base.progress import report_progress
from opscope.columns.column import TableSchema
from opscope.columns.ledger import NEWER
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import ColumnsAsNeeded, Table, as_column
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import (
    unknown_columns,
    unknown_tables,
    with_rows,
    without_unknown_codes,
)
from opscope.columns.validate import TableChecks
from opscope.storage.interop import (
    column_from_arrow,
    constant_column,
    present_columns,
    table_from_arrow,
)
from opscope.storage.job import ledger_with_ranks
from opscope.storage.manifest import MANIFEST, Manifest, damaged_file, rank_folders, read_manifest
from opscope.storage.parquet import FEW_ROWS, ParquetColumns, damage_of, names_in
from opscope.storage.partition import Partition, choose_part
from opscope.storage.remote import complete


def load_part(path: Path, part: Partition | None = None) -> TraceData:
    """Read one part of a trace folder; ``path`` may also be the part's own folder.

    The ledger has the ranks of the job that are missing in the trace folder.

    Raises:
        TraceFormatError: the folder is missing, damaged, not a trace, or of a newer schema.
        UsageError: there are several parts and ``part`` is None.
    """

    def find() -> Path:
        folder = choose_part(path, part)
        complete(folder)
        return folder

    def load(folder: Path) -> TraceData:
        return _read(folder, None, None if folder == path else path)

    return read_unreplaced(load, find)


@contextmanager
def part_as_needed(folder: Path) -> Iterator[TraceData]:
    """The trace in a part's own folder; long columns are read on use, inside the context only.

    For one question about many traces, which needs few of their columns.
    """
    complete(folder)
    with ExitStack() as opened:
        yield read_unreplaced(lambda folder: _read(folder, opened), lambda: folder)


def _read(folder: Path, opened: ExitStack | None, job: Path | None = None) -> TraceData:
    """The trace in a part's folder.

    Args:
        folder: the part's folder.
        opened: holds the files of long tables, which are read on use; None reads all.
        job: the trace folder, for the missing ranks.
    """
    manifest = read_manifest(folder)
    names = _names(folder, manifest)
    tables: dict[str, Table] = {}
    checks = TableChecks(tables, names, str(folder))
    if opened is not None:
        # Columns check each other by these tables. Without this reference cycle, tables are freed
        # with the trace, and not when Python collects: with a thousand traces, gigabytes.
        opened.callback(tables.clear)
    notes = _read_tables(folder, manifest, tables, checks, opened)
    valid, unknown_counts = without_unknown_codes(tables)
    notes += unknown_counts
    ledger = valid.get("ledger", Table(TABLES["ledger"], {}))
    if notes:
        ledger = with_rows(ledger, {(NEWER, what): count for what, count in notes.items()})
    if job is not None:
        metadata = TraceData(valid, names).metadata
        ledger = ledger_with_ranks(ledger, metadata, manifest.rank, rank_folders(job))
    return TraceData({**valid, "ledger": ledger}, names)


def _read_tables(
    folder: Path,
    manifest: Manifest,
    tables: dict[str, Table],
    checks: TableChecks,
    opened: ExitStack | None,
) -> Counter[str]:
    """Fill in every table of the manifest; returns counts of unknown data."""
    notes = unknown_tables(manifest.tables, [*TABLES, "names"])
    size, read = sum(table["bytes"] for table in manifest.tables.values()), 0
    complete_tables = []
    for name, schema in TABLES.items():
        if name not in manifest.tables:
            continue
        report_progress(read, size)
        read += manifest.tables[name]["bytes"]
        with ExitStack() as table_stack, damage_of(folder / f"{name}.parquet"):
            data = table_stack.enter_context(_table_file(folder, name, manifest))
            names = ["id", *(column.name for column in schema.columns)]
            notes += unknown_columns(name, data.column_names, names)
            if opened is None or data.rows <= FEW_ROWS:
                tables[name] = table_from_arrow(schema, data)
                complete_tables.append(name)
            else:
                present = present_columns(schema, data.column_names)
                tables[name] = _as_needed(folder, schema, present, data, checks)
                opened.push(table_stack.pop_all())
    checks.check_whole(complete_tables)
    return notes


def _as_needed(
    folder: Path, schema: TableSchema, present: list[str], data: ParquetColumns, checks: TableChecks
) -> Table:
    def read(name: str) -> Any:
        with damage_of(folder / f"{schema.name}.parquet"):
            column, value = schema.column(name), data.constant(name)
            constant = None if value is None else constant_column(column, value, data.rows)
            return as_column(
                column, column_from_arrow(schema, data, name) if constant is None else constant
            )

    def check(name: str) -> None:
        checks.check_column(schema.name, name)
        if name == "argument":
            checks.check_positions()

    return Table.lazy(schema, ColumnsAsNeeded(present, read, check), data.rows)


@contextmanager
def _table_file(folder: Path, name: str, manifest: Manifest) -> Iterator[ParquetColumns]:
    file = folder / f"{name}.parquet"
    expected = manifest.tables.get(name)
    if expected is None:
        raise damaged_file(folder / MANIFEST, f"it does not list {name}")
    with open_in_folder(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size != expected["bytes"]:
            raise damaged_file(file, f"it has {size} bytes instead of {expected['bytes']}")
        yield ParquetColumns(stream, expected["rows"], str(file), expected["memory_bytes"])


def _names(folder: Path, manifest: Manifest) -> Names:
    file = folder / "names.parquet"
    with damage_of(file), _table_file(folder, "names", manifest) as data:
        return names_in(data)
