"""Reading a part of a trace folder: all of it, or its columns as they are needed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from opscope.base.arrow import pa
from opscope.base.input_file import open_in_folder
from opscope.base.progress import tell
from opscope.base.replacing import read_unreplaced
from opscope.columns.arrow_values import in_one, is_text, text_bytes
from opscope.columns.column import TableSchema
from opscope.columns.columns_as_needed import ColumnsAsNeeded
from opscope.columns.ledger import NEWER
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table, as_column
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import (
    unknown_columns,
    unknown_tables,
    with_rows,
    without_unknown_codes,
)
from opscope.columns.validate import TableChecks, check_tables
from opscope.errors import OpscopeError
from opscope.storage.interop import (
    column_from_arrow,
    columns_there,
    constant_column,
    table_from_arrow,
)
from opscope.storage.job import ledger_with_ranks
from opscope.storage.manifest import MANIFEST, Manifest, damaged_file, rank_folders, read_manifest
from opscope.storage.partition import Partition, asked_partition, choose_part
from opscope.storage.read_parquet import FEW_ROWS, ParquetColumns
from opscope.storage.remote import complete


def load_folder(path: str | os.PathLike[str], rank: int | None = None) -> TraceData:
    """Read one rank of a trace folder; ``path`` may also be the rank's own folder.

    Raises:
        TraceFormatError, UsageError: as :func:`load_part`.
    """
    return load_part(Path(path), asked_partition(rank))


def load_part(path: Path, asked: Partition | None = None) -> TraceData:
    """Read one part of a trace folder; ``path`` may also be the part's own folder.

    Ranks of its job that the trace folder lacks are in the ledger.

    Raises:
        TraceFormatError: the folder is missing, damaged, not a trace, or of a newer schema.
        UsageError: there are several and it was not ``asked`` for one of them.
    """

    def find() -> Path:
        folder = choose_part(path, asked)
        complete(folder)
        return folder

    def load(folder: Path) -> TraceData:
        manifest = read_manifest(folder)
        tables, notes = _read_tables(folder, manifest)
        names = _names(folder, manifest)
        check_tables(tables, names, str(folder))
        return _trace_of(manifest, tables, names, notes, None if folder == path else path)

    return read_unreplaced(load, find)


@contextmanager
def part_as_needed(folder: Path) -> Iterator[TraceData]:
    """The trace in a part's own folder, of which long columns are read when they are asked for.

    For whoever asks one thing of many traces: most of reading one goes to columns that are not
    needed for it. Nothing can be read of it any more once this ends.

    Raises:
        TraceFormatError: as :func:`load_part`. Of a column that is damaged, it is raised by what
            asks for that.
    """
    complete(folder)
    with ExitStack() as opened:

        def load(folder: Path) -> TraceData:
            manifest = read_manifest(folder)
            names = _names(folder, manifest)
            tables: dict[str, Table] = {}
            # Columns check each other by these. Without the circle they are gone with the trace,
            # and not when Python collects: of a thousand traces that was gigabytes.
            opened.callback(tables.clear)
            checks = TableChecks(tables, names, str(folder))
            notes = _open_tables(folder, manifest, tables, checks, opened)
            return _trace_of(manifest, tables, names, notes)

        yield read_unreplaced(load, lambda: folder)


def _trace_of(
    manifest: Manifest,
    tables: Mapping[str, Table],
    names: Names,
    notes: Counter[str],
    job: Path | None = None,
) -> TraceData:
    """The trace of the tables of a folder.

    Args:
        manifest: of the folder.
        tables: as they are there.
        names: likewise.
        notes: what was left out of them.
        job: the folder of its job, where that is to be looked at.
    """
    tables, unknown = without_unknown_codes(tables)
    notes += unknown
    ledger = tables.get("ledger", Table(TABLES["ledger"], {}))
    if notes:
        ledger = with_rows(ledger, {(NEWER, what): count for what, count in notes.items()})
    if job is not None:
        metadata = TraceData(tables, names).metadata
        ledger = ledger_with_ranks(ledger, metadata, manifest.rank, rank_folders(job))
    return TraceData({**tables, "ledger": ledger}, names)


def _read_tables(folder: Path, manifest: Manifest) -> tuple[dict[str, Table], Counter[str]]:
    """Every table there is, and what of the files this version does not know."""
    tables, notes = {}, unknown_tables(manifest.tables, [*TABLES, "names"])
    size, read = sum(_bytes(manifest, name) for name in manifest.tables), 0
    for name, schema in TABLES.items():
        if name not in manifest.tables:
            continue
        tell(read, size)
        read += _bytes(manifest, name)
        with _columns(folder, name, manifest) as data:
            notes += _unknown_of(schema, data)
            tables[name] = table_from_arrow(schema, data)
    return tables, notes


def _open_tables(
    folder: Path,
    manifest: Manifest,
    tables: dict[str, Table],
    checks: TableChecks,
    opened: ExitStack,
) -> Counter[str]:
    """Fill in every table there is, of which long ones are read when they are asked for.

    Returns:
        What of the files this version does not know.
    """
    notes = unknown_tables(manifest.tables, [*TABLES, "names"])
    short = []
    for name, schema in TABLES.items():
        if name not in manifest.tables:
            continue
        with ExitStack() as own, _damage_of(folder / f"{name}.parquet"):
            data = own.enter_context(_opened(folder, name, manifest))
            notes += _unknown_of(schema, data)
            if manifest.tables[name]["rows"] <= FEW_ROWS:
                tables[name] = table_from_arrow(schema, data)
                short.append(name)
                continue
            there = columns_there(schema, data.column_names)
            tables[name] = _as_needed(folder, schema, there, data, checks)
            opened.push(own.pop_all())
    for name in short:
        for column in tables[name].given if len(tables[name]) else ():
            checks.check_column(name, column)
    if not {"tensors", "scalars"}.isdisjoint(short):
        checks.check_positions()
    checks.check_metadata()
    return notes


def _as_needed(
    folder: Path, schema: TableSchema, there: list[str], data: ParquetColumns, checks: TableChecks
) -> Table:
    def read(name: str) -> Any:
        with _damage_of(folder / f"{schema.name}.parquet"):
            column, value = schema.column(name), data.constant(name)
            found = None if value is None else constant_column(column, value, data.rows)
            return as_column(
                column, column_from_arrow(schema, data, name) if found is None else found
            )

    def check(name: str) -> None:
        checks.check_column(schema.name, name)
        if name == "argument":
            checks.check_positions()

    return Table.as_asked_for(schema, ColumnsAsNeeded(there, read, check), data.rows)


def _unknown_of(schema: TableSchema, data: ParquetColumns) -> Counter[str]:
    known = ["id", *(column.name for column in schema.columns)]
    return unknown_columns(schema.name, data.column_names, known)


def _bytes(manifest: Manifest, table: str) -> int:
    """How large the file of a table is to be."""
    return manifest.tables[table]["bytes"]


def ranks(path: str | os.PathLike[str]) -> list[int]:
    """The ranks that a trace folder holds, ascending."""
    return sorted(rank_folders(Path(path)))


@contextmanager
def _columns(folder: Path, name: str, manifest: Manifest) -> Iterator[ParquetColumns]:
    """The columns of a table; what goes wrong with them meanwhile is said of its file."""
    with _damage_of(folder / f"{name}.parquet"), _opened(folder, name, manifest) as data:
        yield data


@contextmanager
def _opened(folder: Path, name: str, manifest: Manifest) -> Iterator[ParquetColumns]:
    file = folder / f"{name}.parquet"
    expected = manifest.tables.get(name)
    if expected is None:
        raise damaged_file(folder / MANIFEST, f"it does not list {name}")
    with open_in_folder(file) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size != expected["bytes"]:
            raise damaged_file(file, f"it has {size} bytes, the manifest says {expected['bytes']}")
        yield ParquetColumns(opened, expected["rows"], str(file), expected["memory_bytes"])


@contextmanager
def _damage_of(file: Path) -> Iterator[None]:
    """Have what goes wrong with a table meanwhile said of its file."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged_file(file, "it is missing") from error
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, OpscopeError | MemoryError):
            raise
        raise damaged_file(file, _first_line(error)) from error


def _names(folder: Path, manifest: Manifest) -> Names:
    with _columns(folder, "names", manifest) as data:
        text = data["text"] if "text" in data.column_names else None
        if text is None or not is_text(text.type):
            raise ValueError("it has no column of text")
        if text.null_count:
            raise ValueError("it has rows without a text")
        return Names(*text_bytes(in_one(text)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else "unreadable"
