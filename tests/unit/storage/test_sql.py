"""SQL over a trace in memory."""

import gc
import threading

import pytest

from opscope.columns.schema import TABLES
from opscope.errors import UsageError
from opscope.storage.sql import rows_of
from support.build_trace import build_trace, span, tensor


@pytest.fixture
def trace():
    return build_trace([
        span("ProfilerStep#4", 0, 100),
        span("aten::add", 10, 30, inputs=[tensor(2, 3)], overload="Tensor"),
        span("aten::add", 40.5, 60, "worker"),
    ])  # fmt: skip


def test_named_events_reads_like_a_timeline(trace):
    rows = trace.sql(
        "select id, name, overload, kind, thread, parent, step, start_us, duration_us "
        "from named_events order by id"
    ).fetchall()
    assert rows == [
        (0, "ProfilerStep#4", None, "annotation", "main", -1, 4, 0.0, 100.0),
        (1, "aten::add", "Tensor", "operator", "main", 0, 4, 10.0, 20.0),
        (2, "aten::add", None, "operator", "worker", -1, 4, 40.5, 19.5),
    ]


def test_every_table_can_be_queried_and_joins_by_id(trace):
    for name in (*TABLES, "names"):
        assert trace.sql(f"select count(*) from {name}").fetchall()[0][0] >= 0
    rows = trace.sql(
        "select names.text, tensors.sizes from tensors "
        "join events on events.id = tensors.event join names on names.id = events.name"
    )
    assert rows.fetchall() == [("aten::add", [2, 3])]


def test_a_value_that_python_lacks_is_named_with_a_way_out(trace):
    for value in ("'infinity'::timestamp", "date '20000-01-01'", "{'x': [date '-infinity']}"):
        with pytest.raises(UsageError, match=r"cannot be shown.*::varchar"):
            list(rows_of(trace.sql(f"select {value}", read_only=True)))


def test_results_can_be_refined_after_the_trace_is_gone(trace):
    relation = trace.sql("select id, parent from events")
    del trace
    gc.collect()
    assert relation.df()["parent"].tolist() == [-1, 0, -1]
    assert relation.filter("parent >= 0").order("id").fetchall() == [(1, 0)]


def test_sums_are_integers(trace):
    (total,) = trace.sql("select sum(duration_ns) from events").fetchall()[0]
    assert type(total) is int and total == 139_500
    huge = trace.sql("select 170141183460469231731687303715884105727::hugeint // 1000")
    assert huge.fetchall()[0][0] == (2**127 - 1) // 1000


def test_columns_of_one_name_are_kept_apart(trace):
    relation = trace.sql("select id, parent as ID, id from events order by id")
    assert relation.columns == ["id", "ID_1", "id_2"]
    assert relation.fetchall()[0] == (0, -1, 0)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("selec 1", "syntax error"),
        ("select nothing from events", "nothing"),
        ("select cast('x' as int) from events", "failed on a row.*convert"),
        ("select * from event", r"event.*events, frames.*named_events, names"),
        ("", "returns no rows|does not run"),
        ("select 1; select 2", "2 statements. Write one SELECT"),
    ],
)
def test_a_query_that_does_not_run_says_why_and_what_there_is(trace, statement, message):
    with pytest.raises(UsageError, match=rf"(?s){message}"):
        trace.sql(statement)


def test_threads_query_at_once_and_combine_their_results(trace):
    counts, errors = [], []

    def query():
        try:
            for _ in range(5):
                first, second = trace.sql("select 1 as n"), trace.sql("select id as n from events")
                counts.append(len(first.union(second).fetchall()))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=query) for _ in range(3)]
    for thread in threads:
        thread.start()
    query()
    for thread in threads:
        thread.join()
    assert not errors
    assert counts == [4] * 20
