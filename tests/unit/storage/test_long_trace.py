"""Reading parts of a trace on disk gives what the whole trace says of them."""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.support.build_trace import ORIGIN_NS, allocation, build_trace, kernel, span, tensor
from tests.support.repeat_trace import repeat_trace

from opscope.api.trace import Trace
from opscope.columns.part import part_from
from opscope.errors import TraceFormatError, UsageError
from opscope.storage import long_trace, parquet, sql
from opscope.storage.long_trace import LongTrace, end_of_trace
from opscope.storage.sql_on_disk import query_long
from opscope.timeline.window import Window, window_of


def many(count=200):
    """Spans in spans, with arguments and kernels, two at a time on two threads."""
    spans = []
    for i in range(count):
        at = 10 * i
        spans.append(span("outer", at, at + 35, thread=f"t{i % 4}"))
        spans.append(
            span("aten::mm", at + 1, at + 8, thread=f"t{i % 4}", inputs=[tensor(2, i + 1)])
        )
    return build_trace(
        spans,
        allocations=[allocation(10 * i, 64, address=i) for i in range(count)],
        gpu=[kernel("gemm", 10 * i + 5, 10 * i + 7, launch=2 * i + 1) for i in range(count)],
    )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 64)
    trace = many()
    trace.save(tmp_path / "t")
    return trace, LongTrace.at(tmp_path / "t")


def rows_of(trace: Trace, table: str) -> list[tuple[object, ...]]:
    columns = [c for c in trace.table(table).schema.columns if not c.is_list]
    values = [trace.table(table)[c.name].tolist() for c in columns]
    return list(zip(*values, strict=True))


def test_a_range_is_the_same_part_as_of_the_whole_trace(saved):
    trace, long = saved
    begin_ns, end_ns = ORIGIN_NS + 500_000, ORIGIN_NS + 900_000
    found = long.between(begin_ns, end_ns)
    expected = part_from(part_from(trace, 0, end_ns).trace, begin_ns).trace
    assert len(found.events) > 64
    for table in ("events", "tensors", "allocations", "threads"):
        assert rows_of(found, table) == rows_of(expected, table)
    shapes = [list(row) for row in found.table("tensors").lists("sizes")]
    assert shapes == [list(row) for row in expected.table("tensors").lists("sizes")]
    assert "start_ns" not in found.metadata and "end_ns" not in found.metadata


def test_a_range_begins_and_ends_where_it_was_asked_to(tmp_path):
    """A report of it shows that time, and not the whole recording with one pixel of rows."""
    last_ns = ORIGIN_NS + 3_000_000
    bounds = {"start_ns": ORIGIN_NS - 7, "end_ns": last_ns, "end_monotonic_ns": 5_000_000}
    many().with_metadata(bounds).save(tmp_path / "t")
    begin_ns, end_ns = ORIGIN_NS + 500_000, ORIGIN_NS + 900_000
    found = LongTrace.at(tmp_path / "t").between(begin_ns, end_ns)
    assert window_of(found, found.metadata) == Window(begin_ns, end_ns)
    assert found.metadata["end_monotonic_ns"] == 5_000_000 - (last_ns - end_ns)
    whole = LongTrace.at(tmp_path / "t").between(0, 2 * last_ns)
    assert {key: whole.metadata[key] for key in bounds} == bounds


def test_a_range_has_what_devices_did_for_it_and_then(tmp_path):
    spans = [span("aten::mm", 10 * i, 10 * i + 8) for i in range(100)]
    kernels = [kernel("gemm", 10 * i + 5, 10 * i + 12, launch=i) for i in range(100)]
    trace = build_trace(spans, gpu=kernels, links=[(i, i + 1) for i in range(99)])
    trace.save(tmp_path / "t")
    begin_ns, end_ns = ORIGIN_NS + 200_000, ORIGIN_NS + 400_000
    found = LongTrace.at(tmp_path / "t").between(begin_ns, end_ns)
    expected = part_from(part_from(trace, 0, end_ns).trace, begin_ns).trace
    assert 10 < len(found.table("gpu")) < 25
    for table in ("events", "gpu", "links", "threads"):
        assert rows_of(found, table) == rows_of(expected, table)


def test_a_range_in_which_nothing_ran_says_which_there_are(saved):
    _, long = saved
    with pytest.raises(UsageError, match=r"between 0 and 0\.002 seconds"):
        long.between(ORIGIN_NS + 10**9, ORIGIN_NS + 2 * 10**9)
    with pytest.raises(UsageError, match="Events of this recording have no step number"):
        long.of_steps(0, 5)


def test_slices_have_all_time_once_and_each_start_once(saved):
    trace, long = saved
    slices = list(long.slices(100))
    assert len(slices) > 3
    assert sum(len(part.trace.events) - part.carried for part in slices) == len(trace.events)
    total_ns = sum(int(part.trace.events["duration_ns"].sum()) for part in slices)
    assert total_ns == int(trace.events["duration_ns"].sum())
    for before, after in itertools.pairwise(slices):
        assert before.end_ns == after.begin_ns
    for part in slices:
        parent = part.trace.events["parent"]
        names = part.trace.events["name"]
        inner = names == part.trace.names.find("aten::mm")
        assert np.all(names[parent[inner]] == part.trace.names.find("outer"))


def test_steps_are_found_by_number(tmp_path):
    trace = build_trace(
        """
        ProfilerStep#0      0..100
          aten::mm         10..30
        ProfilerStep#1    100..200
          aten::add       110..130
        """
    )
    trace.save(tmp_path / "t")
    long = LongTrace.at(tmp_path / "t")
    part = long.between(*long.of_steps(1, 1))
    assert [part.event_name(i) for i in range(len(part.events))] == ["ProfilerStep#1", "aten::add"]
    with pytest.raises(UsageError, match="No step from 5 to 6"):
        long.of_steps(5, 6)


def test_the_end_of_a_trace_is_its_last_moments(tmp_path, monkeypatch):
    monkeypatch.setattr(long_trace, "LAST_NS", 100_000)
    many().save(tmp_path / "t")
    end = end_of_trace(tmp_path / "t")
    assert 0 < len(end.events) < 100
    assert end.ledger == many().ledger


def test_a_trace_without_events_is_refused(tmp_path):
    Trace({}, many().names).save(tmp_path / "t")
    with pytest.raises(TraceFormatError, match="contains no events"):
        LongTrace.at(tmp_path / "t")


def test_queries_have_null_for_a_column_that_a_file_lacks(saved):
    _, trace = saved
    file = trace.file("events")
    pq.write_table(pq.read_table(file).drop_columns(["is_async"]), file)
    found = query_long(trace, "select distinct is_async from named_events", True)
    assert found.fetchall() == [(None,)]


def test_codes_of_a_newer_opscope_are_left_out_or_marked(tmp_path):
    trace = build_trace([span("aten::add", 0, 9, inputs=[tensor(2), 3])])
    scalars = trace.table("scalars")
    newer = scalars.replaced({"type": np.full(len(scalars), 200, dtype=np.uint8)})
    trace.with_tables({"scalars": newer}).save(tmp_path / "t")
    long = LongTrace.at(tmp_path / "t")
    assert len(scalars) == 1 and not len(long.between(*long.span_ns).table("scalars"))


def test_a_query_keeps_names_in_memory_and_not_the_events(tmp_path, monkeypatch):
    few = build_trace([span(f"n{i % 7}", i, i + 0.5) for i in range(100)])
    repeat_trace(few, 3000, 200_000).save(tmp_path / "t")
    monkeypatch.setitem(sql.SETTINGS, "memory_limit", "18MiB")
    query = "select name, sum(duration_us) from named_events group by name"
    assert len(query_long(LongTrace.at(tmp_path / "t"), query, read_only=True).fetchall()) == 7
