"""What notebooks show."""

from __future__ import annotations

import re

import pytest

from opscope.api.trace import Trace
from opscope.base.quantity_text import time_text
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from opscope.findings.summary import summary_of
from opscope.torch_api.event_list.event_list import make_event_list
from opscope.torch_api.event_list.notebook import ROWS
from support.build_trace import build_trace, kernel, span


def test_a_trace_shows_its_summary():
    trace = build_trace([span("a", 0, 1), span("b", 2, 3)], ledger={"x": {"dropped: full": 5}})
    html = trace._repr_html_()
    assert html == summary_of(trace)._repr_html_()
    assert "2 events, 2 names" in html
    assert "5 events were DROPPED" in html


def test_numbers_are_aligned_right_and_texts_left():
    html = summary_of(build_trace([span("a", 0, 1)])).table._repr_html_()
    cells = re.findall(r"<td style=\"text-align:(\w+)[^>]*>([^<]*)</td>", html)
    assert [(side, text[:7]) for side, text in cells[:3]] == [
        ("left", "a"), ("right", "1"), ("right", "1.00 µs"),
    ]  # fmt: skip


def test_an_empty_trace_says_so():
    assert "nothing was recorded" in Trace({}, Names.from_strings([]))._repr_html_()


def test_averages_come_with_most_time_first():
    trace = build_trace([span("short", 0, 1), span("<b>long", 2, 50)])
    for html in (
        summary_of(trace)._repr_html_(),
        make_event_list(trace).key_averages()._repr_html_(),
    ):
        assert html.index("&lt;b&gt;long") < html.index("short")
        assert "<b>long" not in html
        assert "48.0 µs" in html


def test_device_time_has_a_column_where_there_is_any():
    trace = build_trace([("aten::mm", 0, 9)], gpu=[kernel("gemm", 1, 8, launch=0)])
    for html in (
        summary_of(trace)._repr_html_(),
        make_event_list(trace).key_averages()._repr_html_(),
    ):
        assert "self device" in html
        assert "7.00 µs" in html


def test_a_list_of_events_shows_its_first_ones():
    events = make_event_list(build_trace([span(f"op{i}", i, i + 1) for i in range(ROWS + 3)]))
    html = events._repr_html_()
    assert f"op{ROWS - 1}" in html
    assert f"op{ROWS}<" not in html
    assert "3 more events" in html


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 µs"), (10**8, "100 ms"), (61 * 10**9, "61.0 s")],
)
def test_times_have_three_digits(nanoseconds, text):
    assert time_text(nanoseconds) == text


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
    averages = html.split("most time of their own")[1]
    assert "ProfilerStep" not in averages and "sleep" not in averages
