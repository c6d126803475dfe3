"""SQL over traces on disk; of several processes, every table has all rows, with their process.

Tables that grow with a recording are read from files, only the parts that a statement needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.base.arrow import pa
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.storage.interop import to_arrow
from opscope.storage.long_trace import LongTrace
from opscope.storage.manifest import check_files, damaged_file
from opscope.storage.partition import PROCESS, RANK, Partition
from opscope.storage.sql import connection_over, run_statement

_KEYS = (RANK, PROCESS)
"""Columns with the process of a row, if there are several processes; one of the two is null."""

_NUMBER = pa.int64()
_EMPTY_TRACE = TraceData({}, Names.from_strings([]))


def tables_of(folder: Path) -> LongTrace:
    """The tables of one process; small ones are in memory.

    Raises:
        TraceFormatError: a file is missing or damaged.
    """
    check_files(folder)
    trace = LongTrace(folder)
    _ = trace.small
    return trace


def query_long(trace: LongTrace, statement: str, read_only: bool = False) -> Any:
    """Like :func:`opscope.storage.sql.query`; reads only the data that the statement needs."""
    return query_several({Partition(RANK, 0): trace}, statement, read_only, keys=())


def query_several(
    traces: Mapping[Partition, LongTrace],
    statement: str,
    read_only: bool = False,
    keys: tuple[str, ...] = _KEYS,
) -> Any:
    """Run one SQL statement over all of ``traces``.

    Every table has two more columns, ``keys``: ``rank`` (null for a process without one) and
    ``process`` (null for a rank). Ids are unique only within a process, so joins need these two
    columns as well; ``named_events`` has them.
    """
    tables = {name: _table(name, traces, keys) for name in (*TABLES, "names")}
    return run_statement(connection_over(tables, read_only, keys, True), statement, read_only)


def _table(name: str, traces: Mapping[Partition, LongTrace], keys: tuple[str, ...]) -> Any:
    """A table of all traces; from files, read on use, if any trace has it on disk."""
    files = {part: trace.file(name) for part, trace in traces.items() if name in trace.on_disk}
    if files:
        return _dataset(name, files, keys)
    rows = [
        _with_keys(to_arrow(trace.small, name, text=False), part, keys)
        for part, trace in traces.items()
    ]
    return pa.concat_tables(rows, promote_options="default")


def _with_keys(table: pa.Table, part: Partition, keys: tuple[str, ...]) -> pa.Table:
    for key in keys:
        number = pa.scalar(part.number if part.kind == key else None, _NUMBER)
        table = table.append_column(key, pa.repeat(number, len(table)))
    return table


def _dataset(name: str, files: Mapping[Partition, Path], keys: tuple[str, ...]) -> Any:
    """Files of one table as one dataset, each with its process as columns.

    Columns that all files lack are null.
    """
    from pyarrow import dataset, fs  # take as long to import as all other of Arrow

    # Buffering whole row groups is for remote files; of a local one it takes 0.1 GB.
    options = dataset.ParquetFragmentScanOptions(pre_buffer=False)
    format = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    disk = fs.LocalFileSystem()
    pieces, schemas = [], []
    for part, file in files.items():
        only = dataset.field(part.kind) == part.number if keys else None
        try:
            pieces.append(format.make_fragment(str(file), disk, only))
            schemas.append(pieces[-1].physical_schema)
        except (pa.ArrowException, OSError) as error:
            raise damaged_file(file, str(error).split("\n")[0].rstrip(".")) from error
    schema = pa.unify_schemas(schemas)
    complete = to_arrow(_EMPTY_TRACE, name, text=False).schema
    missing = [field for field in complete if field.name not in schema.names]
    for field in [*missing, *(pa.field(key, _NUMBER) for key in keys)]:
        schema = schema.append(field)
    return dataset.FileSystemDataset(pieces, schema, format)
