"""Random traces that keep the schema's promises, for round-trip tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.column import Column
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import ListColumn, Table

TEXTS = ["", "aten::mm", 'quote " back\\slash', "line\nbreak", "ünïcode ☃ 😀", "\x00", "a" * 300]


def random_trace(seed: int, most_rows: int = 40) -> Trace:
    """A trace whose tables have random sizes, columns left out at random and extreme values."""
    random = np.random.default_rng(seed)
    rows = {name: int(random.integers(0, most_rows + 1)) for name in TABLES}
    rows["names"] = int(random.integers(1, len(TEXTS) + 1))
    tables: dict[str, Any] = {}
    for name, schema in TABLES.items():
        if any(c.required and c.refers and not rows[c.refers] for c in schema.columns):
            rows[name] = 0
    for name, schema in TABLES.items():
        kept = [c for c in schema.columns if c.required or random.random() < 0.8]
        kept = kept or [schema.columns[0]]
        tables[name] = {c.name: _column(random, c, rows[name], rows) for c in kept}
        _fit_lengths(tables[name], kept)
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


def _fit_lengths(table: dict[str, Any], columns: list[Column]) -> None:
    """Give ragged columns that have to be as long as others those others' values, or leave them."""
    for column in columns:
        if column.as_long_as in table:
            table[column.name] = table[column.as_long_as]
        elif column.as_long_as:
            del table[column.name]


def _column(random: np.random.Generator, column: Column, rows: int, sizes: dict[str, int]) -> Any:
    if column.dtype == "string":
        return [TEXTS[i] for i in random.integers(0, len(TEXTS), rows)]
    if column.is_list:
        offsets = np.concatenate([[0], np.cumsum(random.integers(0, 5, rows))]).astype(np.int64)
        largest = 100 if column.most_product is not None else None
        values = _integers(random, column, np.dtype(np.int64), int(offsets[-1]), largest)
        return ListColumn(offsets, values)
    if column.refers:
        rows_there = sizes[column.refers]
        lowest = -1 if column.default == -1 or not rows_there else 0
        return random.integers(lowest, rows_there, rows)
    if column.codes is not None:
        return random.integers(0, len(column.codes), rows)
    dtype = np.dtype(column.dtype)
    if dtype == np.bool_:
        return random.random(rows) < 0.5
    if dtype.kind == "f":
        return random.choice([0.0, -1.5, 1e18], rows)
    cap = 100 if column.name == "argument" else None
    cap = column.most_sum // (4 * max(rows, 1)) if column.most_sum else cap
    return _integers(random, column, dtype, rows, cap)


def _integers(
    random: np.random.Generator,
    column: Column,
    dtype: np.dtype[Any],
    rows: int,
    cap: int | None,
) -> Any:
    """Small numbers, and some of the least and most that the column can have."""
    info = np.iinfo(dtype)
    least = info.min if column.least is None else max(column.least, info.min, -(cap or info.max))
    most = cap or (info.max if column.most is None else min(column.most, info.max))
    small = random.integers(0, 100, rows).astype(dtype)
    extreme = random.choice(np.array([least, most, 0, 1], dtype=dtype), rows)
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
