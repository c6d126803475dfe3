"""A locked query reaches the tables of its trace and nothing else, and ends."""

import threading

import pyarrow as pa
import pytest

from opscope.errors import UsageError
from opscope.storage import sql
from support.build_trace import build_trace, span

outside = pa.table({"secret": [42]})


@pytest.fixture
def trace():
    return build_trace([span("step", 0, 100), span("aten::add", 10, 30)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a query would write; the user's own folder of DuckDB is there too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "secret.csv").write_text("secret\n42\n")
    pa.parquet.write_table(outside, tmp_path / "secret.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("select name from named_events order by id", [("step",), ("aten::add",)]),
        ("select count(*) from events join names on names.id = events.name", [(2,)]),
        ("with a as (from events) select sum(duration_ns) from a", [(120_000,)]),
        ("select column_name from (describe named_events) limit 1", [("id",)]),
    ],
)
def test_the_trace_can_be_read(trace, statement, rows):
    assert trace.sql(statement, read_only=True).fetchall() == rows


FORBIDDEN = [
    "copy (select 1) to 'out.csv'",
    "copy events to 'out.parquet'",
    "copy events from 'secret.csv'",
    "export database 'out'",
    "import database 'out'",
    "select * from read_csv('secret.csv')",
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('secret.csv')",
    "select * from read_blob('secret.csv')",
    "select * from read_json('http://127.0.0.1:9/')",
    "select * from read_parquet('secret.parquet')",
    "select * from parquet_metadata('secret.parquet')",
    "select * from sniff_csv('secret.csv')",
    "select * from glob('*')",
    "from 'secret.csv'",
    "from 'secret.parquet'",
    "select * from outside",
    "attach 'out.db'",
    "attach 'out.db' as other (type sqlite)",
    "install httpfs",
    "load httpfs",
    "load './out.duckdb_extension'",
    "update extensions",
    "create persistent secret s (type s3)",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset memory_limit",
    "set memory_limit = '100GB'",
    "pragma memory_limit = '100GB'",
    "set threads = 1000",
    "set temp_directory = 'out'",
    "set python_enable_replacements = true",
    "pragma enable_profiling = 'json'",
    "pragma profiling_output = 'out.json'",
    "set log_query_path = 'out.log'",
    "call enable_logging(storage = 'file', storage_config = {'path': 'out.log'})",
    "select * from enable_logging(storage = 'file', storage_config = {'path': 'out.log'})",
    "select * from query('copy (select 1) to ''out.csv''')",
    "select 1; copy (select 1) to 'out.csv'",
    "explain analyze copy (select 1) to 'out.csv'",
    "select " + "(" * 3000 + "1" + ")" * 3000,
    "select repeat('x', 100000000000)",
    "select getenv('HOME')",
    "select * from postgres_scan('', 'a', 'b')",
    "create macro m() as table (from read_text('/etc/passwd')); from m()",
    "create view v as from 'secret.csv'",
    "prepare p as copy (select 1) to 'out.csv'; execute p",
    "checkpoint other",
]


@pytest.mark.parametrize("statement", FORBIDDEN, ids=lambda text: text[:60])
def test_nothing_else_can_be_reached(trace, folder, statement):
    before = sorted(folder.rglob("*"))
    with pytest.raises(UsageError):
        trace.sql(statement, read_only=True).fetchall()
    assert sorted(folder.rglob("*")) == before


def test_what_is_forbidden_works_unlocked(trace, folder):
    """Else the test above would show nothing; after a locked query, too."""
    trace.sql("select 1", read_only=True)
    assert trace.sql("from 'secret.csv'").fetchall() == [(42,)]
    assert trace.sql("from 'secret.parquet'").fetchall() == [(42,)]
    trace.sql("copy (select 1 as a) to 'out.csv'")
    assert (folder / "out.csv").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from range(1000000000000) where range % 7 = 3",
        "with recursive r as (select 1 as i union all select i + 1 from r) select count(*) from r",
        "select count(*) from events, range(100000000000) as b",
        "with recursive r as (select 1 as i union all select i + 1 from r) select * from r",
    ],
)
def test_a_query_without_end_is_stopped(trace, monkeypatch, statement):
    monkeypatch.setattr(sql, "LONGEST_S", 0.3)
    with pytest.raises(UsageError, match="was stopped after"):
        trace.sql(statement, read_only=True)


def test_a_result_without_end_is_refused(trace, monkeypatch):
    monkeypatch.setattr(sql, "RESULT_BYTES", 1 << 20)
    with pytest.raises(UsageError, match=r"more than 1 MiB.*Select less"):
        trace.sql("select * from range(1000000000000)", read_only=True)


def test_memory_has_an_end(trace, monkeypatch):
    monkeypatch.setitem(sql.SETTINGS, "memory_limit", "64MiB")
    with pytest.raises(UsageError, match="Out of Memory"):
        trace.sql("select list(range) from range(1000000000)", read_only=True)


def test_the_clock_is_stopped_with_the_query(trace):
    trace.sql("select 1", read_only=True)
    assert not any(isinstance(t, threading.Timer) and t.is_alive() and not t.finished.is_set()
                   for t in threading.enumerate())  # fmt: skip
