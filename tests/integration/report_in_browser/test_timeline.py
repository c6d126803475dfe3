"""The timeline of the report: open, zoom, walk, select, search."""

from __future__ import annotations

import re

import pytest

MAIN = "main"


def test_it_opens_from_disk_and_says_what_it_is(opened, training):
    report = opened(training)
    assert report.page.title() == "train.py"
    header = report.page.inner_text("header")
    assert "nothing dropped" in header
    assert "23 spans" in header
    overview = report.page.inner_text(".panel")
    assert "On the device" in overview
    assert "On the CPU" in overview
    assert "Step 1 was the slowest" in overview


def test_zooming_and_moving_by_keyboard(opened, training):
    report = opened(training)
    low, high = report.view()
    report.page.keyboard.press("w")
    narrow = report.view()
    assert narrow[1] - narrow[0] < (high - low) * 0.95
    report.page.keyboard.press("d")
    assert report.view()[0] > narrow[0]
    report.page.keyboard.press("a")
    report.page.keyboard.press("s")
    report.page.keyboard.press("0")
    assert report.view() == (low, high)


def test_zooming_by_wheel_keeps_what_is_under_the_pointer(opened, training):
    report = opened(training)
    box = report.page.locator("canvas.spans").bounding_box()
    report.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
    low, high = report.view()
    under = low + (high - low) / 4
    report.page.keyboard.down("Control")
    report.page.mouse.wheel(0, -240)
    report.page.keyboard.up("Control")
    report.page.wait_for_function(f"opscope.state.view.to < {high}")
    low, high = report.view()
    assert low + (high - low) / 4 == pytest.approx(under, rel=1e-3)


def test_clicking_a_span_shows_what_it_is(opened, training):
    report = opened(training)
    report.page.mouse.click(*report.place_of("aten::mm"))
    report.settle()
    details = report.page.inner_text(".panel")
    assert "aten::mm" in details
    assert "30.0 µs" in details
    assert "[64, 128], [128, 10]" in details
    assert "MmBackward0" in details  # what it leads to
    assert "Net_0" in details  # what it is inside


def test_walking_from_span_to_span(opened, training):
    report = opened(training)
    report.page.mouse.click(*report.place_of("aten::mm"))
    names = []
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        report.page.keyboard.press(key)
        names.append(report.state("s.spans.name(s.selected)"))
    assert names == [
        "main", "Net_0", "main", "aten::mm", "aten::empty", "aten::empty",
    ]  # fmt: skip
    report.page.keyboard.press("Escape")
    assert report.state("s.selected") == -1


def test_a_selected_stretch_has_statistics(opened, training):
    report = opened(training)
    box = report.page.locator("canvas.ruler").bounding_box()
    low, high = report.view()
    x = [box["x"] + (t - low) / (high - low) * box["width"] for t in (0, 100_000)]
    report.page.mouse.move(x[0], box["y"] + 8)
    report.page.mouse.down()
    report.page.mouse.move(x[1], box["y"] + 8, steps=4)
    report.page.mouse.up()
    report.settle()
    length = report.state("s.range.to - s.range.from")
    assert length == pytest.approx(100_000, rel=0.02)
    assert set(report.rows()) >= {"aten::mm", "MmBackward0", "gemm_kernel"}
    assert "ProfilerStep#0" not in report.rows()  # its time is that of what runs in it
    assert "ProfilerStep#1" not in report.rows()
    report.page.fill(".table-filter", "mm")
    assert sorted(report.rows()) == ["MmBackward0", "aten::mm", "gemm_kernel"]


def test_searching(opened, training):
    report = opened(training)
    report.page.keyboard.press("/")
    report.page.keyboard.type("aten::mm")
    assert report.page.inner_text(".search-found").startswith("3 · 90.0 µs")
    report.page.keyboard.press("Enter")
    first = report.state("s.selected")
    assert report.state("s.spans.name(s.selected)") == "aten::mm"
    report.page.keyboard.press("Escape")
    report.page.keyboard.press("/")
    report.page.keyboard.type("/^Mm.*0$/")
    report.page.keyboard.press("Enter")
    assert report.state("s.spans.name(s.selected)") == "MmBackward0"
    assert report.state("s.selected") != first
    report.page.keyboard.press("Escape")
    assert report.page.input_value(".search input") == ""
    report.page.fill(".search input", "/aten::(mm/")
    assert "not a regular expression" in report.page.inner_text(".search-found")


def test_python_calls_can_be_left_out_of_the_timeline(opened, training):
    report = opened(training)
    main, mm = (report.state(f"s.spans.labels.indexOf({name!r})") for name in (MAIN, "aten::mm"))
    depth = "s.spans.shown.depth[Array.from(s.spans.label).indexOf({})]"
    assert report.state(depth.format(mm)) == 3
    report.state(f"s.goTo(Array.from(s.spans.label).indexOf({main}))")
    report.page.keyboard.press("p")
    report.settle()
    assert not report.page.get_by_label("Python calls").is_checked()
    assert report.state(depth.format(mm)) == 2
    assert report.state("s.selected") == -1
    # Whatever leads to a call of Python shows them again.
    report.state(f"s.goTo(Array.from(s.spans.label).indexOf({main}))")
    report.settle()
    assert report.page.get_by_label("Python calls").is_checked()


def test_the_address_leads_back_to_what_was_looked_at(opened, training):
    report = opened(training)
    report.state("s.selectRange({from: 5000, to: 60000})")
    report.open_tab("memory")
    report.page.wait_for_url(re.compile("(?=.*range=5000-60000)(?=.*tab=memory)"))
    again = opened(training, address=f"#{report.page.url.split('#')[1]}")
    assert again.state("[s.range.from, s.range.to, s.tab]") == [5000, 60000, "memory"]
    again.page.keyboard.press("Escape")
    again.page.wait_for_url(re.compile(r"html(#tab=memory)?$"))
