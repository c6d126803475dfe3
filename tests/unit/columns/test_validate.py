"""Columns that no recorder writes: a trace on disk is what the schema says, or refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opscope import load_trace
from opscope.columns.schema import TABLES
from opscope.errors import TraceFormatError
from support.hostile_sources import built_trace
from support.rewritten_trace import change_row, rewrite_column, write_table


@pytest.fixture
def saved(tmp_path):
    return built_trace().save(tmp_path / "t")


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("events", "duration_ns", -1, "minimum is 0"),
        ("events", "duration_ns", 1 << 62, "maximum"),
        ("events", "thread", -1, "points outside threads"),
        ("events", "overload", 10**6, "points outside names"),
        ("tensors", "event", -1, "points outside events"),
        ("tensors", "argument", -2, "minimum is -1"),
        ("tensors", "argument", 32767, "beyond the arguments of its event"),
        ("tensors", "sizes", [-1, 3], "minimum is 0"),
        ("tensors", "sizes", [1 << 40, 1 << 40], "impossible number of elements in row 0"),
        ("tensors", "strides", [1], r"has 1 values in row 0, and sizes has 2"),
        ("python_calls", "frame", 99, "points outside frames"),
        ("gpu", "launch", 99, "points outside events"),
        ("gpu", "grid", [-1, 1, 1], "gpu.grid"),
        ("allocations", "size_bytes", -(1 << 63), "allocations.size_bytes"),
        ("ledger", "value", float("nan"), "ledger.value"),
        ("metadata", "value", "{", "is not JSON"),
        ("metadata", "value", "[" * 5000, "is not JSON"),
        ("metadata", "value", "[" * 150 + "]" * 150, "nested too deeply"),
    ],
)
def test_values_that_a_column_cannot_have_are_named(saved, table, column, value, message):
    change_row(saved, table, column, 0, value)
    with pytest.raises(TraceFormatError, match=message) as error:
        load_trace(saved)
    assert str(saved) in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("options", "[]"), ("start_ns", "1.5"), ("gpu", "null"), ("deviceProperties", '[{"id": "x"}]'),
     ("left_out", "[1]"), ("process_id", "-1"), ("torch_version", "1")],
)  # fmt: skip
def test_metadata_of_another_kind_is_named(saved, key, value):
    write_table(saved, "metadata", pa.table({"key": [key], "value": [value]}))
    with pytest.raises(TraceFormatError, match=f"metadata '{key}' is .*, and should be"):
        load_trace(saved)


def test_a_key_of_the_metadata_is_there_once(saved):
    write_table(saved, "metadata", pa.table({"key": ["a", "a"], "value": ["1", "2"]}))
    with pytest.raises(TraceFormatError, match="a key twice"):
        load_trace(saved)


@pytest.mark.parametrize(
    ("table", "column"), [("events", "start_ns"), ("tensors", "event"), ("gpu", "kind"),
                          ("metadata", "key"), ("links", "source")],
)  # fmt: skip
def test_columns_without_which_a_row_says_nothing_have_to_be_there(saved, table, column):
    assert TABLES[table].column(column).required
    if table == "links":
        write_table(saved, table, pa.table({"kind": [0], "target": [1]}))
    else:
        write_table(saved, table, pq.read_table(saved / f"{table}.parquet").drop_columns([column]))
    with pytest.raises(TraceFormatError, match=f"has no column called {column}"):
        load_trace(saved)


def test_one_row_that_is_none_of_many_is_found(saved):
    events = pq.read_table(saved / "events.parquet").num_rows
    rewrite_column(saved, "events", "parent", [-1] * (events - 1) + [events - 1])
    with pytest.raises(TraceFormatError, match="later event"):
        load_trace(saved)


@pytest.mark.parametrize("column", ["duration_ns", "size_bytes"])
def test_sums_that_no_view_could_make_are_refused(saved, column):
    table = "events" if column == "duration_ns" else "allocations"
    rows = pq.read_table(saved / f"{table}.parquet").num_rows
    rewrite_column(saved, table, column, [(1 << 61) - 1] * rows)
    with pytest.raises(TraceFormatError, match=rf"{column} adds up to .*, which is impossible"):
        load_trace(saved)


def test_two_columns_of_one_name_are_refused(saved):
    data = pq.read_table(saved / "events.parquet")
    write_table(saved, "events", data.append_column("kind", data["kind"]))
    with pytest.raises(TraceFormatError, match="two columns with the same name"):
        load_trace(saved)
