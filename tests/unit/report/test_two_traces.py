import numpy as np
import pytest

from opscope.analysis.diff.step_costs import Side
from opscope.report import windows
from opscope.report.two_traces import two_long_traces, two_traces
from opscope.storage.long_trace import LongTrace
from opscope.timeline.period import Which
from support.build_trace import build_trace, span
from support.read_report import read_report


def side(name, calls, begins):
    spans = []
    for step in range(16):
        at = begins + 1000 * step
        spans.append(span(f"ProfilerStep#{step}", at, at + 900))
        spans += [span("aten::mm", at + 10 * i, at + 10 * i + 9) for i in range(calls)]
    return Side((name,), (build_trace(spans),))


def test_both_are_on_one_timeline_and_what_differs_is_listed():
    html = two_traces(side("old", 2, 0), side("new", 5, 77_000), "", Which.ALL)
    report = read_report(html).data
    check_page(report)


def check_page(report):
    assert report["title"] == "old and new"
    lines = [line["name"] for line in report["spans"]["lines"]]
    assert len(lines) == 2 and lines[0].startswith("A: old") and lines[1].startswith("B: new")
    assert report["run"]["duration"] < 17_000_000  # they begin together
    assert report["run"]["counts"]["events"] == 16 * (2 + 5 + 2)
    said, tables = report["differences"]["sentences"], report["differences"]["tables"]
    assert said[0].startswith("A: old") and said[1].startswith("B: new")
    (calls,) = [table for table in tables if table["heading"][0] == "Calls a step: Where"]
    assert ["aten::mm, forward", "2", "5", "+3"] in calls["rows"]


@pytest.fixture
def long(tmp_path):
    """Both on disk, and their page, what that asks for, and its time 0."""
    sides = side("old", 2, 0), side("new", 5, 77_000)
    traces = []
    for one in sides:
        one.traces[0].save(tmp_path / one.names[0])
        traces.append(LongTrace.at(tmp_path / one.names[0]))
    return two_long_traces(*traces, sides, "", Which.ALL)


def test_two_long_ones_have_the_same_page(long):
    check_page(read_report(long[0]).data)


def test_a_window_has_the_spans_of_both_and_what_is_merged(long, monkeypatch):
    _, both, begin = long
    trace, merged, least = both.window(begin + 3_000_000, begin + 4_000_000, 0)
    assert (len(trace.events), least) == (2 + 5 + 2, 0) and not merged.any()
    monkeypatch.setattr(windows, "_MOST_UNMERGED", 0)
    trace, merged, least = both.window(begin, begin + 16_000_000, 50_000)
    names = [trace.names[row] for row in trace.events["name"].tolist()]
    steps = [row for row, name in enumerate(names) if name.startswith("ProfilerStep")]
    assert least == 50_000 and not merged[steps].any() and len(steps) == 32
    assert merged.sum() == 16 * (2 + 5)


def test_the_next_span_is_that_of_either(long):
    _, both, begin = long

    def find(moment_us, backwards=False):
        wanted = lambda texts: np.array([text == "aten::mm" for text in texts])  # noqa: E731
        found = both.find(wanted, begin + 1000 * moment_us, backwards)
        assert found.count == 16 * (2 + 5)
        return (found.next[0] - begin) // 1000

    assert find(1005) == 1010 and find(1015) == 1020  # of both, of the new one alone
    assert find(1045) == 2000 and find(2000, backwards=True) == 1040
    assert find(15_045) == 0 and find(0, backwards=True) == 15_040
