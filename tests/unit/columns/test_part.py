"""Parts of tables and traces."""

import pytest

from opscope.columns.part import part_from, part_of
from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import allocation, build_trace, span, tensor


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
