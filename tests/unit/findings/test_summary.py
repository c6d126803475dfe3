"""What notebooks show."""

from __future__ import annotations

from opscope.columns.schema import EventKind
from opscope.findings.summary import summary_of
from opscope.timeline import typical_stretch
from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import build_trace, span
from support.repeat_trace import repeat_trace


def test_a_trace_shows_its_summary():
    trace = build_trace([span("a", 0, 1), span("b", 2, 3)], ledger={"x": {"dropped: full": 5}})
    html = trace._repr_html_()
    assert html == summary_of(trace)._repr_html_()
    assert "2 events, 2 names" in html
    assert "5 events were DROPPED" in html
    assert "no events were recorded" in build_trace([])._repr_html_()


def test_the_verdict_on_a_long_trace_is_of_a_stretch(monkeypatch):
    monkeypatch.setattr(typical_stretch, "SAMPLE_EVENTS", 5_000)
    one = build_trace([span("aten::mm", at, at + 9) for at in range(0, 1000, 10)])
    trace = repeat_trace(one, 300, 1_000_000)
    verdict = summary_of(trace).verdict
    assert verdict.wall_ns < 60_000_000 and "of 300 ms" in verdict.about
    assert summary_of(trace, "all").verdict.wall_ns > 290_000_000


def test_averages_come_with_most_time_first():
    trace = build_trace([span("short", 0, 1), span("<b>long", 2, 50)])
    for html in (
        summary_of(trace)._repr_html_(),
        make_event_list(trace).key_averages()._repr_html_(),
    ):
        assert html.index("&lt;b&gt;long") < html.index("short")
        assert "<b>long" not in html
        assert "48.0 µs" in html or "48.000us" in html


def test_averages_are_of_the_time_looked_at_and_leave_out_steps_and_waiting():
    wait = "<built-in function sleep>"
    trace = build_trace(
        [
            span("ProfilerStep#1", 0, 100, kind=EventKind.ANNOTATION),
            span("aten::mm", 10, 30),
            span(wait, 30, 90, kind=EventKind.C_CALL),
        ]
    )
    html = summary_of(trace)._repr_html_()
    assert "20%" in html and "recording, 100 µs" in html
    averages = html.split("most self time")[1]
    assert "ProfilerStep" not in averages and "sleep" not in averages
