"""The tables, the flame graph and the other panels below the timeline."""

from __future__ import annotations

from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span


def test_the_table_of_operators_is_sorted_filtered_and_leads_to_the_timeline(opened, training):
    report = opened(training)
    report.open_tab("operators")
    by_default = report.rows()
    assert "main" not in by_default and "aten::mm" in by_default
    header = report.page.locator("[data-key=calls]")
    assert header.get_attribute("aria-sort") == "none"
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert report.rows() != by_default
    assert report.rows()[0] in ("gemm_kernel", "unfinished")
    report.page.locator("[data-key=name] button").click()
    names = report.rows()
    assert names == sorted(names, key=str.lower)
    report.page.fill(".table-filter", "mm back")
    assert report.rows() == ["MmBackward0"]
    report.page.fill(".table-filter", "no such thing")
    assert "No rows match" in report.page.inner_text(".panel")
    report.page.fill(".table-filter", "/aten::(mm/")
    assert "not a regular expression" in report.page.inner_text(".table-count")
    report.page.fill(".table-filter", "")
    report.page.get_by_label("with Python calls").check()
    assert "main" in report.rows()
    report.page.locator(".table-row", has_text="aten::mm").first.click()
    assert report.state("s.search.spanCount") == 3
    report.page.get_by_label("by input shape").check()
    assert "[64, 128], [128, 10]" in report.page.inner_text(".panel")


def test_the_flame_graph_follows_the_selection(opened, training):
    report = opened(training)
    report.open_tab("flame")
    crumbs = report.page.inner_text(".crumbs")
    assert "of 370 µs (recording, 370 µs, 3 steps); 3 threads at the same time" in crumbs
    report.state("s.selectRange({ from: 0, to: 50000 })")
    report.settle()
    report.settle()
    assert "of the selected 50.0 µs" in report.page.inner_text(".crumbs")


def test_what_is_reported_of_a_flame_does_not_stay_over_other_panels(opened, training):
    report = opened(training)
    report.open_tab("flame")
    box = report.page.locator(".flame canvas").bounding_box()
    report.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    report.page.wait_for_selector(".tooltip:not([hidden])")
    report.page.keyboard.press("1")
    assert report.page.locator(".tooltip:not([hidden])").count() == 0


def test_what_waits_comes_last_however_it_is_sorted(opened):
    wait = "<built-in method acquire of _thread.lock object at 0x7f>"
    spans = [
        span(wait, 0, 90, "other", kind=EventKind.C_CALL),
        span("<built-in function loads>", 5, 10, kind=EventKind.C_CALL),
    ]
    report = opened(build_trace(spans))
    assert "Waiting" in report.page.inner_text(".panel")
    report.open_tab("operators")
    report.page.get_by_label("with Python calls").check()
    assert report.rows() == ["<built-in function loads>", wait]
    report.page.click("[data-key=calls] button")
    assert report.rows()[-1] == wait


def test_the_start_up_is_left_out_and_a_click_opens_it(opened):
    spans, at = [span("aten::rand", 0, 100)], 0
    for took in (300, *[100] * 5):
        spans.append(span("aten::mm", max(at, 260), at + took - 20))
        spans.append(
            span("Optimizer.step#SGD.step", at + took - 10, at + took, kind=EventKind.ANNOTATION)
        )
        at += took
    report = opened(build_trace(spans))
    low, high = report.view()
    assert 200_000 < low < 300_000 and high > 800_000  # what the page begins with
    assert "steady state, 500 µs, 5 steps of the optimizer" in report.page.inner_text(".panel")
    report.open_tab("selection")
    assert "aten::rand" not in report.rows()
    report.open_tab("overview")
    report.page.get_by_text("Show the start-up").click()
    report.settle()
    assert "aten::rand" in report.rows()
    assert report.state("s.range.to") == 300_000


def test_a_row_shows_where_it_ran_and_greys_nothing_that_is_it(opened, training):
    report = opened(training)
    report.open_tab("operators")
    report.state("s.setView(200000, 230000)")
    report.page.locator(".table-row", has_text="gemm_kernel").click()
    report.settle()
    low, high = report.view()
    assert low < 20_000 and high > 35_000  # none ran where the window was
    marks = report.state("s.search.presence(s.duration, 100).reduce((a, b) => a + b)")
    assert 0 < marks < 10


def test_memory_explains_its_peak(opened, training):
    report = opened(training)
    report.open_tab("memory")
    text = report.page.inner_text(".panel")
    assert "Peak: 10.0 KiB" in text
    assert "in step 2" in text
    assert "backward" in text
    assert "No recorded operator used" in text
    report.page.get_by_role("button", name="blocks", exact=True).click()
    assert len(report.rows()) == 4


def test_steps_are_compared(opened, training):
    report = opened(training)
    report.open_tab("steps")
    text = report.page.inner_text(".panel")
    assert "Step 1 was the slowest: 140 µs, 1.4 times the median" in text
    assert "backward: 40.0 µs more than the median" in text


def test_steps_that_nothing_marks_are_reported_to_be_found(opened):
    step = {"kind": EventKind.ANNOTATION}
    report = opened(
        build_trace([
            span("Optimizer.step#SGD.step", i * 100 + 80, i * 100 + 90, **step) for i in range(4)
        ])
    )  # fmt: skip
    report.open_tab("steps")
    assert "from the end of one Optimizer.step" in report.page.inner_text(".panel")
    assert report.state("s.report.steps.number.length") == 3


def test_tables_and_tabs_work_without_a_mouse(opened, training):
    report = opened(training)
    report.page.locator("[data-tab=overview]").focus()
    for _ in range(3):
        report.page.keyboard.press("ArrowRight")
    assert report.state("s.tab") == "operators"
    assert report.page.evaluate("document.activeElement.dataset.tab") == "operators"
    report.page.locator(".table-scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        report.page.keyboard.press(key)
    first = report.page.inner_text(".table-row.picked .cell-text")
    assert report.state("s.search.text") == first == report.rows()[0]
    before = report.page.locator("canvas.spans").bounding_box()["height"]
    report.page.locator(".splitter").focus()
    report.page.keyboard.press("ArrowDown")
    report.settle()
    assert report.page.locator("canvas.spans").bounding_box()["height"] > before
