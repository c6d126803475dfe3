"""Parts of tables and traces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.columns.part import part_from, part_of
from opscope.columns.schema import TABLES, THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import allocation, build_trace, span, tensor
from support.random_trace import assert_same_table, random_trace


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), begin=st.integers(0, 40), length=st.integers(0, 40))
def test_rows_one_after_the_other_are_those_that_taking_gives(seed, begin, length):
    trace = random_trace(seed, 40)
    for name in TABLES:
        table = trace.table(name)
        first = min(begin, len(table))
        end = min(first + length, len(table))
        assert_same_table(table.between(first, end), table.take(np.arange(first, end)))


@pytest.fixture
def trace():
    return build_trace(
        [
            span("around", 0, 100),
            span("aten::add", 10, 20, inputs=[tensor(2), tensor(2)]),
            span("aten::mul", 40, 50, inputs=[tensor(3)]),
            span("aten::sub", 60, 70, inputs=[tensor(4)]),
        ],
        allocations=[allocation(12, 64), allocation(45, 32), allocation(65, -64)],
    )


def test_a_part_has_the_rows_of_its_events(trace):
    begin = int(trace.events["start_ns"][2]) - 5
    part = part_from(trace, begin)
    assert part.rows.tolist() == [0, 2, 3]
    assert part.trace.events["parent"].tolist() == [-1, 0, 0]
    assert part.trace.events["start_ns"][0] == begin
    tensors = part.trace.table("tensors")
    assert tensors["event"].tolist() == [1, 2]
    assert [tensors.lists("sizes")[row] for row in range(2)] == [[3], [4]]
    assert part.trace.table("allocations")["size_bytes"].tolist() == [32, -64]


def test_rows_of_a_part_need_not_be_one_after_the_other(trace):
    kept = np.array([0, -1, -1, 1, -1])  # the last is for "none"
    table = part_of(trace.table("tensors"), kept.__getitem__, 0, int(trace.end_ns.max()))
    assert [table.lists("sizes")[row] for row in range(len(table))] == [[4]]
    kept = np.array([0, 1, -1, 2, -1])
    table = part_of(trace.table("tensors"), kept.__getitem__, 0, int(trace.end_ns.max()))
    assert [table.lists("sizes")[row] for row in range(len(table))] == [[2], [2], [4]]
    assert table["event"].tolist() == [1, 1, 2]


def test_columns_of_one_value_stay_so(trace):
    column = np.broadcast_to(np.int64(7), 4)
    events = trace.events.replaced({"record_function_id": column})
    taken = events.take(np.array([1, 3]))["record_function_id"]
    assert (taken.tolist(), taken.strides) == ([7, 7], (0,))
    none = Table(events.schema, {}).take(np.zeros(0, dtype=np.int64))
    assert len(none) == 0


def test_a_part_has_the_readings_of_counters_just_before_and_after_it():
    """What they tell is from one to the next."""
    times = [0, 10, 20, 30, 40, 50, 5, 45]
    rows = len(times)
    columns = {column.name: [0] * rows for column in THREAD_SAMPLES.columns}
    columns |= {"time_ns": times, "system_thread_id": [1] * 6 + [2] * 2}
    table = Table(THREAD_SAMPLES, columns)

    def kept(begin_ns, end_ns):
        return sorted(part_of(table, lambda rows: rows, begin_ns, end_ns)["time_ns"].tolist())

    assert kept(15, 35) == [5, 10, 20, 30, 40, 45]
    assert kept(20, 40) == [5, 10, 20, 30, 40, 45]
    assert kept(60, 70) == []
    assert kept(0, 100) == sorted(times)
