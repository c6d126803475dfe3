"""The page of a comparison: what it shows, and that names of a program are text in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from opscope.analysis.diff.compare import compare
from opscope.analysis.diff.gate import judge, read_gate
from opscope.api.diff import open_sides
from opscope.columns.schema import EventKind
from opscope.report.diff_page import diff_html, flame_of
from support.build_trace import build_trace, span
from support.step_programs import step_program


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data.strip())


def page_of(old, new, gate=""):
    a, b = open_sides(old, new)
    found = compare(a, b)
    return diff_html(found, a, b, judge(found, read_gate(gate)) if gate else ())


@pytest.fixture(scope="module")
def page():
    return page_of(step_program(), step_program(took_us={"block2": 200}), "module:block2<=+2%")


def test_it_has_the_tables_and_both_flame_graphs_and_nothing_runs_in_it(page):
    found = Elements(page)
    for title in ("Gate", "Modules", "Calls", "failed"):
        assert title in found.texts
    assert any(text.startswith("A step of A: 1.3") for text in found.texts)
    assert any(text.startswith("A step of B: 1.4") for text in found.texts)
    assert not {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object"}
    assert "default-src 'none'" in page
    assert not any("style" in attributes for _, attributes in found.tags)


def test_boxes_are_as_wide_as_calls_took_and_say_what_changed(page):
    boxes = [
        float(attributes["width"].rstrip("%"))
        for tag, attributes in Elements(page).tags
        if tag == "svg" and "y" in attributes
    ]
    assert len(boxes) == 48
    assert min(boxes) == pytest.approx(100 * 100 / 1425, abs=0.01)
    assert len(re.findall('class="more3"', page)) >= 2  # the module and its operator, in B
    assert "block2: 210 µs, +6.4% of a step against the other side" in page


def test_names_are_never_markup():
    hostile = "<script>alert(1)</script>"
    old = step_program(metadata={"program": hostile})
    page = page_of(old, old)
    assert hostile not in page
    assert any(hostile in text for text in Elements(page).texts)


def test_calls_in_the_calls_they_ran_in():
    found = flame_of([step_program(calls={"block0": 3})])
    assert found.step_ns == pytest.approx(1_525_000)
    assert found.time_ns["block0",] == pytest.approx(310_000)
    assert found.time_ns["block0", "aten::mm"] == pytest.approx(300_000)
    assert found.time_ns["block1", "aten::mm"] == pytest.approx(100_000)
    assert len(found.time_ns) == 24
    averaged = flame_of([step_program(), step_program(took_us={"block3": 200})])
    assert averaged.time_ns["block3", "aten::mm"] == pytest.approx(150_000)


def test_what_is_around_the_steps_is_not_in_them():
    assert flame_of([build_trace("aten::mm 0..10")]).time_ns == {}
    trace = step_program(
        change=lambda spans: [span("train", 0, 90_000, kind=EventKind.PYTHON_CALL), *spans]
    )
    assert ("train",) not in flame_of([trace]).time_ns
