"""The summary of a recording that is read slice by slice is that of all of it at once."""

import pytest
from tests.support.build_trace import build_trace, span

from opscope.analysis import long_top_operators
from opscope.analysis.long_top_operators import find_long_top_operators
from opscope.analysis.top_operators import find_top_operators
from opscope.errors import UsageError
from opscope.storage import parquet
from opscope.storage.long_trace import LongTrace
from opscope.timeline.period import Which, period_of


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 32)
    monkeypatch.setattr(long_top_operators, "_SLICE_EVENTS", 50)
    spans = [span("whole", 0, 5000)]
    for i in range(150):
        spans.append(span("aten::linear", 10 + 20 * i, 25 + 20 * i))
        spans.append(span("aten::addmm", 12 + 20 * i, 20 + 20 * i))
    trace = build_trace(spans)
    trace.save(tmp_path / "t")
    return trace, LongTrace.at(tmp_path / "t")


@pytest.mark.parametrize("sort_by", ["self_cpu_time_total", "count"])
def test_rows_are_those_of_the_whole(saved, sort_by):
    trace, long = saved
    whole = find_top_operators(period_of(trace, Which.ALL), sort_by=sort_by, row_limit=-1)
    found = find_long_top_operators(long, sort_by=sort_by, row_limit=-1)
    key = found.sorted_by.key
    assert [row[key] for row in found.rows] == [row[key] for row in whole.rows]
    assert {row["name"]: row for row in found.rows} == {row["name"]: row for row in whole.rows}
    assert found.total_cpu_ns == whole.total_cpu_ns
    assert found.period.wall_ns == whole.period.wall_ns
    found = find_long_top_operators(long, sort_by="count", row_limit=1)
    assert [row["calls"] for row in found.rows] == [150]
    assert found.left_out == 2


def test_what_cannot_be_added_up_is_refused(saved):
    _, long = saved
    with pytest.raises(UsageError, match="--range"):
        find_long_top_operators(long, sort_by="flops", row_limit=5)
    with pytest.raises(UsageError, match="--range"):
        find_long_top_operators(long, sort_by="count", row_limit=5, by_shape=True)
