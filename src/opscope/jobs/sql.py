"""SQL over several processes: every table has the rows of all, with their process.

Tables that grow with a recording are read from files, only the parts that a statement needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.arrow import pa
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.storage.interop import to_arrow
from opscope.storage.long_trace import LongTrace
from opscope.storage.manifest import check_files, damaged_file
from opscope.storage.partition import Partition
from opscope.storage.sql import KEYS, connection_over, run_statement

_NUMBER = pa.int64()


@dataclass(frozen=True)
class PartTables:
    """The tables of one process: in memory, or paths of files."""

    in_memory: TraceData
    on_disk: Mapping[str, Path]


def tables_of(source: Path | TraceData) -> PartTables:
    """The tables of one process, from a folder or a trace."""
    if isinstance(source, TraceData):
        return PartTables(source, {})
    check_files(source)
    long = LongTrace(source)
    return PartTables(long.small, {name: long.file(name) for name in long.on_disk})


def query_several(
    parts: Mapping[Partition, PartTables], statement: str, read_only: bool = False
) -> Any:
    """Run one SQL statement over all of ``parts``.

    Every table has two more columns: ``rank`` (null for a process without one) and ``process``
    (null for a rank). Ids are unique only within a process, so joins need these two columns as
    well; ``named_events`` has them.
    """
    connection = connection_over(_tables(parts), read_only, KEYS, is_large=True)
    return run_statement(connection, statement, read_only)


def _tables(parts: Mapping[Partition, PartTables]) -> dict[str, Any]:
    """Every table of all parts; if some have it on disk only, these rows are read, too."""
    small: dict[str, list[pa.Table]] = {name: [] for name in (*TABLES, "names")}
    large: dict[str, list[tuple[Partition, Path]]] = {}
    for part, of_part in parts.items():
        for name, tables in small.items():
            if name in of_part.on_disk:
                large.setdefault(name, []).append((part, of_part.on_disk[name]))
            else:
                tables.append(_of(part, to_arrow(of_part.in_memory, name, text=False)))
    return {name: _joined(tables, large.get(name, [])) for name, tables in small.items()}


def _joined(tables: list[pa.Table], files: list[tuple[Partition, Path]]) -> Any:
    """One table from memory and disk; lazily read from disk unless both have rows."""
    if not files:
        return pa.concat_tables(tables, promote_options="default")
    on_disk = _dataset(files)
    rows = [table for table in tables if len(table)]
    if not rows:
        return on_disk
    return pa.concat_tables([*rows, on_disk.to_table()], promote_options="default")


def _of(part: Partition, table: pa.Table) -> pa.Table:
    for key in KEYS:
        number = pa.scalar(part.number if part.kind == key else None, _NUMBER)
        table = table.append_column(key, pa.repeat(number, len(table)))
    return table


def _dataset(files: list[tuple[Partition, Path]]) -> Any:
    """Files of one table as one dataset, each with its process as columns."""
    from pyarrow import dataset, fs  # take as long to import as all other of Arrow

    format, disk = dataset.ParquetFileFormat(), fs.LocalFileSystem()
    pieces, schemas = [], []
    for part, file in files:
        only = dataset.field(part.kind) == part.number
        try:
            pieces.append(format.make_fragment(str(file), disk, only))
            schemas.append(pieces[-1].physical_schema)
        except (pa.ArrowException, OSError) as error:
            raise damaged_file(file, str(error).split("\n")[0].rstrip(".")) from error
    schema = pa.unify_schemas(schemas)
    for key in KEYS:
        schema = schema.append(pa.field(key, _NUMBER))
    return dataset.FileSystemDataset(pieces, schema, format)
