"""Reading a part of a trace folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opscope.base.folder_swap import read_unreplaced
from opscope.base.input_file import open_in_folder
from opscope.base.progress import report_progress
from opscope.columns.ledger import NEWER
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import (
    unknown_columns,
    unknown_tables,
    with_rows,
    without_unknown_codes,
)
from opscope.columns.validate import check_tables
from opscope.storage.interop import table_from_arrow
from opscope.storage.job import ledger_with_ranks
from opscope.storage.manifest import MANIFEST, Manifest, damaged_file, rank_folders, read_manifest
from opscope.storage.parquet import ParquetColumns, damage_of, names_in
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
        return _read(folder, None if folder == path else path)

    return read_unreplaced(load, find)


def _read(folder: Path, job: Path | None) -> TraceData:
    """The trace in a part's folder; ``job``: the trace folder, for the missing ranks."""
    manifest = read_manifest(folder)
    names = _names(folder, manifest)
    tables, notes = _tables(folder, manifest)
    check_tables(tables, names, str(folder), tables)
    valid, unknown_counts = without_unknown_codes(tables)
    notes += unknown_counts
    ledger = valid.get("ledger", Table(TABLES["ledger"], {}))
    if notes:
        ledger = with_rows(ledger, {(NEWER, what): count for what, count in notes.items()})
    if job is not None:
        metadata = TraceData(valid, names).metadata
        ledger = ledger_with_ranks(ledger, metadata, manifest.rank, rank_folders(job))
    return TraceData({**valid, "ledger": ledger}, names)


def _tables(folder: Path, manifest: Manifest) -> tuple[dict[str, Table], Counter[str]]:
    """Every table of the manifest, and counts of unknown data."""
    tables: dict[str, Table] = {}
    notes = unknown_tables(manifest.tables, [*TABLES, "names"])
    size, read = sum(table["bytes"] for table in manifest.tables.values()), 0
    for name, schema in TABLES.items():
        if name not in manifest.tables:
            continue
        report_progress(read, size)
        read += manifest.tables[name]["bytes"]
        with damage_of(folder / f"{name}.parquet"), _table_file(folder, name, manifest) as data:
            names = ["id", *(column.name for column in schema.columns)]
            notes += unknown_columns(name, data.column_names, names)
            tables[name] = table_from_arrow(schema, data)
    return tables, notes


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
