"""A saved trace with columns, files or a manifest of somebody else's, and a manifest that fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def rewrite_column(rank: Path, table: str, column: str, values: Sequence[Any]) -> None:
    """Give one column of a saved table other values of its own type."""
    data = pq.read_table(rank / f"{table}.parquet")
    number = data.column_names.index(column)
    kind = data.schema.field(number).type
    write_table(rank, table, data.set_column(number, column, pa.array(values, kind)))


def change_row(rank: Path, table: str, column: str, row: int, value: Any) -> None:
    """Give one cell another value."""
    values = pq.read_table(rank / f"{table}.parquet")[column].to_pylist()
    values[row] = value
    rewrite_column(rank, table, column, values)


def write_table(rank: Path, table: str, data: pa.Table) -> None:
    """Put a table into a saved trace."""
    file = rank / f"{table}.parquet"
    pq.write_table(data, file)
    tables = json.loads((rank / "manifest.json").read_text())["tables"]
    size = file.stat().st_size
    tables[table] = {"rows": data.num_rows, "bytes": size, "memory_bytes": data.nbytes}
    edit_manifest(rank, tables=tables)


def edit_manifest(rank: Path, **changes: Any) -> None:
    """Have the manifest say something else."""
    manifest = json.loads((rank / "manifest.json").read_text())
    (rank / "manifest.json").write_text(json.dumps({**manifest, **changes}))
