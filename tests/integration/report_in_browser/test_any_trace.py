"""Empty, unusual, hostile and very large traces."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.sites import Place
from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from support.build_trace import allocation, build_trace, span
from support.finding import finding
from support.repeat_trace import repeat_trace

TABS = ["overview", "findings", "selection", "operators", "modules", "sources", "flame", "memory",
        "steps", "run"]  # fmt: skip


def test_an_empty_trace_opens(opened):
    report = opened(Trace({}, Names.from_strings([])))
    for tab in TABS:
        report.open_tab(tab)
    report.page.keyboard.press("w")
    report.page.keyboard.press("/")
    report.page.keyboard.type("anything")
    report.page.keyboard.press("Enter")
    assert report.state("s.spans.count") == 0


def test_unusual_spans_open(opened):
    spans = [
        span("", 0, 1, "no name"),
        span("a", 0, 10, "overlapping", parent=-1),
        *(span(f"deep{i}", i / 100, 400 - i, "deep") for i in range(150)),
        span("point", 5, 5, "zero length"),
        span("open", 5, None, "unfinished"),
        span("b", 5, 15, "overlapping", parent=-1),
        span("c", 7, 20, "overlapping", parent=-1),
    ]
    report = opened(build_trace(spans))
    for tab in TABS:
        report.open_tab(tab)
    assert report.state("s.spans.count") == len(spans)
    for number in range(0, len(spans), 20):
        report.state(f"s.goTo({number})")
        report.settle()


def test_nothing_in_a_trace_is_executed(opened):
    names = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "javascript:alert(1)",
        "\x00\x1b[31m\u202e\u2028",
        "x" * 2_000_000,
    ]
    bad = names[0]
    trace = build_trace(
        [
            *(span(name, i * 10, i * 10 + 9, names[i % 2]) for i, name in enumerate(names)),
            span(bad, 60, 70, bad, kind=EventKind.MODULE_CALL, module=bad),
            span(bad, 71, 75, bad, kind=EventKind.PYTHON_CALL, caller=(bad, 3, bad)),
        ],
        allocations=[allocation(1, 10, names[0])],
        metadata={"program": names[1], "user": {names[0]: names[1]}, "options": {bad: bad}},
        ledger={bad: {"dropped: " + bad: 2}},
    )
    place = Place(bad, 3, bad, names[1], 1, 1)
    hostile = finding(
        title=bad, explanation=names[1], advice=bad, saved_by=names[2], places=(place,),
        events=np.array([0, 1]), link="javascript:alert(1)",
    )  # fmt: skip
    report = opened(trace, findings=hostile)
    for tab in TABS:
        report.open_tab(tab)
        assert report.page.locator(".panel script, .panel img, .panel svg").count() == 0
    for i in range(len(names)):
        report.state(f"s.goTo({i})")
        report.settle()
    report.page.mouse.move(*report.place_of(names[1]))
    report.settle()
    assert "2 dropped" in report.page.inner_text("header")


@pytest.mark.slow
def test_a_million_spans_are_all_there_and_stay_usable(opened, training):
    # GIVEN a million spans of uneven length
    rng = np.random.default_rng(0)
    trace = repeat_trace(training, 1_000_000 // len(training.events), 400_000)
    duration = trace.events["duration_ns"]
    shorter = (duration * rng.uniform(0.6, 1.0, len(duration))).astype(np.int64)
    tables = {name: trace.table(name) for name in ("threads", "gpu", "frames", "modules")}
    events = {column.name: trace.events[column.name] for column in trace.events.schema.columns}
    tables["events"] = {**events, "duration_ns": shorter, "parent": np.full(len(duration), -1)}
    # WHEN the report is opened
    report = opened(Trace(tables, trace.names))
    # THEN every span is there, and drawing does not depend on how many there are
    assert report.state("s.spans.count") == len(trace.events) + len(trace.table("gpu"))
    report.page.keyboard.press("/")
    report.page.keyboard.type("aten::mm")
    report.page.keyboard.press("Enter")
    assert report.state("s.spans.name(s.selected)") == "aten::mm"
    for tab in ("selection", "flame", "operators"):
        report.open_tab(tab)
    report.page.keyboard.press("Escape")
    report.page.keyboard.press("Escape")
    report.page.keyboard.press("w")
    report.settle()
