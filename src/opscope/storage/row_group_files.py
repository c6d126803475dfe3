"""Tables that do not fit in memory: written and read one group of rows after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.arrow import pa
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.storage.arrow_parquet import pq
from opscope.storage.encoding import without_nulls, writer_options
from opscope.storage.interop import has_id, table_from_arrow, to_arrow
from opscope.storage.read_parquet import read_whole

_QUICK = 1
"""zstd, for what is written once more."""


def write_part(trace: TraceData, name: str, folder: Path) -> None:
    """Write one table of a part of a trace, for `read_part`."""
    data = without_nulls(to_arrow(trace, name, text=False))
    options = {**writer_options(name, data), "compression_level": _QUICK}
    pq.write_table(data, folder / f"{name}.parquet", **options)


def read_part(folder: Path, name: str, rows: int) -> Table:
    """One table of a part; an empty one where there is none."""
    schema = TABLES[name]
    if not rows:
        return Table(schema, {})
    return table_from_arrow(schema, read_whole(folder / f"{name}.parquet"))


class RowGroupWriter:
    """Writes one table of a trace, some rows at a time, as `store` would write all of them."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._file = folder / f"{name}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = self._memory_bytes = 0

    def add(self, table: Table) -> None:
        """These rows come next."""
        if not len(table):
            return
        data = to_arrow(TraceData({self._name: table}, _NO_NAMES), self._name, text=False)
        if has_id(self._name):
            ids = pa.array(np.arange(self._rows, self._rows + len(table)), data["id"].type)
            data = data.set_column(0, "id", ids)
        data = without_nulls(data)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, data.schema, **_options(self._name, data))
        self._writer.write_table(data.cast(self._writer.schema))
        self._rows += len(table)
        self._memory_bytes += data.nbytes

    def close(self) -> dict[str, int] | None:
        """End the file; what a manifest says of it, None if there were no rows."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self._file.stat().st_size
        return {"rows": self._rows, "bytes": size, "memory_bytes": self._memory_bytes}


_NO_NAMES = Names.from_strings([])


def _options(name: str, data: pa.Table) -> dict[str, Any]:
    options = writer_options(name, data)
    del options["row_group_size"]
    return {**options, "write_statistics": True}
