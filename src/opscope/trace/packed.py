"""A whole trace as JSON values, to lie inside a file that is for other tools.

    {"codec": "zstd", "names": {"offsets": PACKED, "bytes": PACKED},
     "tables": {"events": {"thread": PACKED, ...}, "tensors": {"sizes": [PACKED, PACKED], ...},
                "metadata": {"key": ["process_id", ...], ...}}}

PACKED is ``[number of bytes, base64]``: the numbers of a column as planes (all first bytes, all
second bytes, ...), compressed. Most planes are all zeros or nearly so, and cost next to nothing. A
column that nearly ascends holds differences. Columns that a table was not given are not there.
"""

from __future__ import annotations

import importlib
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.errors import MissingDependencyError
from opscope.memory_limit import require_memory
from opscope.trace.column import Column
from opscope.trace.names import Names
from opscope.trace.schema import TABLES
from opscope.trace.table import ListColumn, Table
from opscope.trace.trace import Trace
from opscope.trace.unknown_codes import (
    ledger_with,
    unknown_columns,
    unknown_tables,
    without_unknown_codes,
)
from opscope.trace.validate import check_tables

_Compress = Callable[[bytes], bytes]
_Decompress = Callable[[bytes, int], bytes]

_ZLIB, _ZSTD = "zlib", "zstd"
_FEW_ROWS = 20_000
"""Of so many rows zlib takes less time than it takes to import Arrow, which has zstd."""

_ASCENDING = frozenset({"start_ns", "time_ns", "event", "parent", "offsets"})


def packed(trace: Trace, without: Collection[str] = ()) -> dict[str, Any]:
    """Everything ``trace`` holds but the tables ``without``."""
    tables = {name: trace.table(name) for name in TABLES if name not in without}
    is_large = sum(map(len, tables.values())) > _FEW_ROWS
    codec = _ZSTD if is_large and _has_arrow() else _ZLIB
    compress = _compressor(codec)

    def column(name: str, values: Any) -> Any:
        if isinstance(values, ListColumn):
            parts = (("offsets", values.offsets), ("values", values.values))
            return [_packed(*part, compress) for part in parts]
        return values.tolist() if values.dtype == object else _packed(name, values, compress)

    names = {
        "offsets": _packed("offsets", trace.names.offsets, compress),
        "bytes": _packed("bytes", np.frombuffer(trace.names.blob, np.uint8), compress),
    }
    columns = {
        table: {name: column(name, values) for name, values in found.given.items()}
        for table, found in tables.items()
        if len(found)
    }
    return {"codec": codec, "names": names, "tables": columns}


def unpacked(value: Mapping[str, Any], source: str) -> Trace:
    """The trace that :func:`packed` made ``value`` of; columns of a newer opscope are left out.

    Raises:
        TraceFormatError: its columns are not those of a trace.
        InsufficientMemoryError: it does not fit in memory.
        ValueError, TypeError, KeyError, ArithmeticError, OSError, zlib.error: it is damaged.
    """
    decompress = _decompressor(value["codec"])
    given = value["tables"]
    require_memory(sum(map(_unpacked_bytes, given.values())), f"reading {source}")
    notes: Counter[str] = unknown_tables(given, TABLES)
    tables = {}
    for name, columns in given.items():
        if name in TABLES:
            known = {column.name: column for column in TABLES[name].columns}
            notes += unknown_columns(name, columns, known)
            read = {c: _column(known[c], v, decompress) for c, v in columns.items() if c in known}
            tables[name] = Table(TABLES[name], read)
    offsets = _unpacked("offsets", value["names"]["offsets"], np.dtype(np.int64), decompress)
    blob = _unpacked("bytes", value["names"]["bytes"], np.dtype(np.uint8), decompress).tobytes()
    _check_offsets(offsets, len(blob), "names")
    names = Names(offsets, blob)
    check_tables(tables, names, source)
    tables, unknown = without_unknown_codes(tables)
    if notes + unknown:
        ledger = tables.get("ledger", Table(TABLES["ledger"], {}))
        tables["ledger"] = ledger_with(ledger, notes + unknown)
    return Trace(tables, names)


def _check_offsets(offsets: npt.NDArray[np.int64], count: int, what: str) -> None:
    sound = len(offsets) and offsets[0] == 0 and offsets[-1] == count
    if not sound or (np.diff(offsets) < 0).any():
        raise ValueError(f"{what} do not end where the next ones begin")


def _packed(name: str, values: npt.NDArray[Any], compress: _Compress) -> list[Any]:
    values = np.ascontiguousarray(values)
    if name in _ASCENDING and len(values):
        values = np.diff(values, prepend=values.dtype.type(0))
    planes = values.view(np.uint8).reshape(-1, values.itemsize).T
    return [values.nbytes, b64encode(compress(planes.tobytes())).decode("ascii")]


def _unpacked(
    name: str, value: list[Any], dtype: np.dtype[Any], decompress: _Decompress
) -> npt.NDArray[Any]:
    size, text = value
    raw = decompress(b64decode(text), size) if size else b""
    if len(raw) != size:
        raise ValueError(f"{name} has {len(raw)} bytes, not {size}")
    planes = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, -1)
    values: npt.NDArray[Any] = planes.reshape(-1) != 0
    if dtype != np.bool_:
        values = np.ascontiguousarray(planes.T).reshape(-1).view(dtype)
    return np.cumsum(values, dtype=dtype) if name in _ASCENDING else values


def _column(column: Column, value: Any, decompress: _Decompress) -> Any:
    if column.is_list:
        long = np.dtype(np.int64)
        offsets = _unpacked("offsets", value[0], long, decompress)
        values = _unpacked("values", value[1], long, decompress)
        _check_offsets(offsets, len(values), column.name)
        return ListColumn(offsets, values)
    if column.dtype == "string":
        return [str(text) for text in value]
    return _unpacked(column.name, value, np.dtype(column.dtype), decompress)


def _unpacked_bytes(columns: Mapping[str, Any]) -> int:
    """What the columns of a table say that they hold."""
    total = 0
    for value in columns.values():
        parts = value if value and isinstance(value[0], list) else [value]
        total += sum(int(p[0]) for p in parts if len(p) == 2 and isinstance(p[0], int))
    return total


def _has_arrow() -> bool:
    try:
        importlib.import_module("opscope.trace.arrow")
    except MissingDependencyError:
        return False
    return True


def _compressor(codec: str) -> _Compress:
    if codec == _ZLIB:
        return lambda raw: zlib.compress(raw, 1)
    from opscope.trace.arrow import pa

    zstd = pa.Codec(_ZSTD, compression_level=1)
    return lambda raw: zstd.compress(raw, asbytes=True)


def _decompressor(codec: str) -> _Decompress:
    if codec == _ZLIB:
        return lambda raw, size: zlib.decompressobj().decompress(raw, size)
    from opscope.trace.arrow import pa  # says what to install where it is missing

    zstd = pa.Codec(codec)
    return lambda raw, size: zstd.decompress(raw, size, asbytes=True)
