"""Parts of tables and traces."""

from opscope.columns.part import part_of
from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table


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
