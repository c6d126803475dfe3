import pytest

from opscope.analysis.diff.step_costs import Side
from opscope.report.two_traces import two_traces
from opscope.timeline.period import Which
from support.build_trace import build_trace, kernel, span
from support.read_report import read_report


def side(name, calls, begins):
    spans = []
    for step in range(16):
        at = begins + 1000 * step
        spans.append(span(f"ProfilerStep#{step}", at, at + 900))
        spans += [span("aten::mm", at + 10 * i, at + 10 * i + 9) for i in range(calls)]
    return Side((name,), (build_trace(spans),))


def test_both_are_on_one_timeline_and_what_differs_is_listed():
    html, together = two_traces(side("old", 2, 0), side("new", 5, 77_000), "", Which.ALL)
    report = read_report(html).data
    assert report["title"] == "old and new"
    lines = [line["name"] for line in report["spans"]["lines"]]
    assert len(lines) == 2 and lines[0].startswith("A: old") and lines[1].startswith("B: new")
    assert report["run"]["duration"] < 17_000_000  # they begin together
    assert len(together.events) == 16 * (2 + 5 + 2)
    said, tables = report["differences"]["said"], report["differences"]["tables"]
    assert said[0].startswith("A: old") and said[1].startswith("B: new")
    (calls,) = [table for table in tables if table["heading"][0] == "Calls a step: Where"]
    assert ["aten::mm, forward", "2", "5", "+3"] in calls["rows"]


@pytest.mark.parametrize("is_first", [True, False])
def test_one_of_them_may_have_device_work_alone(is_first):
    host = side("host", 2, 0)
    device = Side(("device",), (build_trace([], gpu=[kernel("gemm", 500, 600)]),))
    pair = (device, host) if is_first else (host, device)
    _, together = two_traces(*pair, "", Which.ALL)
    assert len(together.table("gpu")) == 1 and len(together.events) == 16 * 3
