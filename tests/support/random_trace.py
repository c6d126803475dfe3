"""Random traces that keep the schema's promises, for round-trip tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.trace.names import Names
from opscope.trace.schema import TABLES, Column
from opscope.trace.table import ListColumn, Table
from opscope.trace.trace import Trace

TEXTS = ["", "aten::mm", 'quote " back\\slash', "line\nbreak", "ünïcode ☃ 😀", "\x00", "a" * 300]


def random_trace(seed: int, most_rows: int = 40) -> Trace:
    """A trace whose tables have random sizes, columns left out at random and extreme values."""
    random = np.random.default_rng(seed)
    rows = {name: int(random.integers(0, most_rows + 1)) for name in TABLES}
    rows["names"] = int(random.integers(1, len(TEXTS) + 1))
    tables: dict[str, Any] = {}
    for name, schema in TABLES.items():
        kept = [c for c in schema.columns if random.random() < 0.8] or [schema.columns[0]]
        tables[name] = {c.name: _column(random, c, rows[name], rows) for c in kept}
    events = tables["events"]
    if "start_ns" in events:
        events["start_ns"] = np.sort(events["start_ns"])
    if "parent" in events:
        events["parent"] = [int(random.integers(-1, row)) for row in range(rows["events"])]
    tables["metadata"] = {
        "key": [f"key {i}" for i in range(rows["metadata"])],
        "value": [str(i) for i in range(rows["metadata"])],
    }
    return Trace(tables, Names.from_strings(TEXTS[: rows["names"]]))


def _column(random: np.random.Generator, column: Column, rows: int, sizes: dict[str, int]) -> Any:
    if column.dtype == "string":
        return [TEXTS[i] for i in random.integers(0, len(TEXTS), rows)]
    if column.dtype.startswith("list"):
        offsets = np.concatenate([[0], np.cumsum(random.integers(0, 5, rows))]).astype(np.int64)
        return ListColumn(offsets, _integers(random, np.dtype(np.int64), int(offsets[-1])))
    if column.refers:
        rows_there = sizes[column.refers]
        lowest = -1 if column.default == -1 or not rows_there else 0
        return random.integers(lowest, rows_there, rows)
    dtype = np.dtype(column.dtype)
    if dtype == np.bool_:
        return random.random(rows) < 0.5
    if dtype.kind == "f":
        return random.choice([0.0, -1.5, 1e300, float("inf")], rows)
    return _integers(random, dtype, rows)


def _integers(random: np.random.Generator, dtype: np.dtype[Any], rows: int) -> Any:
    info = np.iinfo(dtype)
    small = random.integers(0, 100, rows).astype(dtype)
    extreme = random.choice(np.array([info.min, info.max, 0, 1], dtype=dtype), rows)
    return np.where(random.random(rows) < 0.3, extreme, small)


def assert_same_trace(actual: Trace, expected: Trace) -> None:
    """Every column of every table, and all names, are equal, with the schema's dtypes."""
    assert list(actual.names) == list(expected.names)
    for name in TABLES:
        assert_same_table(actual.table(name), expected.table(name))


def assert_same_table(actual: Table, expected: Table) -> None:
    """Both tables have the same rows."""
    assert len(actual) == len(expected), actual.schema.name
    for column in actual.schema.columns:
        where = f"{actual.schema.name}.{column.name}"
        if column.dtype.startswith("list"):
            left, right = actual.lists(column.name), expected.lists(column.name)
            np.testing.assert_array_equal(left.offsets, right.offsets, err_msg=where)
            np.testing.assert_array_equal(left.values, right.values, err_msg=where)
        else:
            left_values, right_values = actual[column.name], expected[column.name]
            assert left_values.dtype == right_values.dtype, where
            np.testing.assert_array_equal(left_values, right_values, err_msg=where)
