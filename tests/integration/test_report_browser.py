"""The report in a real browser: open, zoom, search, select, sort, on any trace.

Needs Debian's chromium (or another Chromium in PATH) and the playwright package; skips without.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.analysis.findings.finding import Finding, Findings
from opscope.analysis.findings.sites import Place
from opscope.report.page import write_report
from opscope.trace.names import Names
from opscope.trace.schema import EventKind, RecordScope
from opscope.trace.trace import Trace
from support.build_trace import allocation, build_trace, kernel, span, tensor
from support.repeat_trace import repeat_trace

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip(
        "no Chromium to open reports with: apt-get install chromium", allow_module_level=True
    )
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: pip install playwright"
)

CUT_OFF = """
[...document.querySelectorAll("header *, .table-tools *, .cards *, .crumbs *")]
  .filter(e => e.offsetParent && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.className + ": " + e.textContent)
"""
"""What reaches beyond the window at the right."""

CONTRAST = """
(text, ground) => {
  const light = color => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map(Number).map(part => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
"""
"""As WCAG defines it."""

TABS = ["overview", "findings", "selection", "operators", "modules", "sources", "flame", "memory",
        "steps", "run"]  # fmt: skip
MAIN = "main"
LAPTOP = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, as in containers.
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()


class Opened:
    """A report in a browser page, with everything it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, address: str = "", **options: Any) -> None:
        self.page = browser.new_page(viewport=LAPTOP, **options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("console", self.hear)
        self.page.on("request", lambda request: self.requests.append(request.url.split("#")[0]))
        self.page.goto(path.as_uri() + address)
        self.page.wait_for_selector("#opscope[data-ready=true]", timeout=60_000)

    def hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def state(self, expression: str) -> Any:
        """The value of JavaScript in which ``s`` is the page's state."""
        return self.page.evaluate(f"(() => {{ const s = opscope.state; return {expression}; }})()")

    def settle(self) -> None:
        """Wait until what was changed is drawn."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def open_tab(self, name: str) -> None:
        self.page.click(f"[data-tab={name}]")
        self.settle()

    def view(self) -> tuple[float, float]:
        return tuple(self.state("[s.view.from, s.view.to]"))

    def place_of(self, name: str) -> tuple[float, float]:
        """Where the middle of the first span of a name is on the screen."""
        index = self.state(f"s.spans.labels.indexOf({name!r})")
        span_ = self.state(f"Array.from(s.spans.label).indexOf({index})")
        box = self.page.locator("canvas.spans").bounding_box()
        start, end, depth = self.state(
            f"[s.spans.start[{span_}], s.spans.end[{span_}], s.spans.shown.depth[{span_}]]"
        )
        top = self.page.evaluate(f"opscope.app.timeline.layout.top(0, {depth})")
        low, high = self.view()
        share = ((start + end) / 2 - low) / (high - low)
        return box["x"] + share * box["width"], box["y"] + top + 9

    def rows(self, column: int = 0) -> list[str]:
        """Texts of one column of the table, from the top."""
        return self.page.eval_on_selector_all(
            ".table-row",
            f"rows => rows.map(r => [parseFloat(r.style.top), "
            f"r.children[{column}].querySelector('.cell-text').textContent])"
            ".sort((a, b) => a[0] - b[0]).map(r => r[1])",
        )


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[Opened] = []

    def open_(trace: Trace, findings: Findings | None = None, **options: Any) -> Opened:
        write_report(trace, tmp_path / "report.html", findings=findings)
        pages.append(Opened(browser, tmp_path / "report.html", **options))
        return pages[-1]

    yield open_
    for opened_ in pages:
        opened_.page.close()
        assert opened_.complaints == []
        # The page itself, and nothing else: no network, no other file.
        assert [url for url in opened_.requests if not url.startswith(("data:", "blob:"))] == [
            (tmp_path / "report.html").as_uri()
        ]


@pytest.fixture
def training() -> Trace:
    """Three steps of a network of one layer, the second slow, with everything on record."""
    spans, allocations, start = [], [], 0.0
    for step in range(3):
        slow = 40 if step == 1 else 0
        row = len(spans)
        spans += [
            span(f"ProfilerStep#{step}", start, start + 100 + slow, step=step),
            span("Net_0", start + 5, start + 50, kind=EventKind.MODULE_CALL, module="Net_0"),
            span(
                "main", start + 6, start + 49, kind=EventKind.PYTHON_CALL,
                frame=("train.py", 3, "main"), caller=("train.py", 12, "<module>"),
            ),
            span(
                "aten::mm", start + 10, start + 40, sequence_number=step,
                inputs=[tensor(64, 128), tensor(128, 10)],
            ),
            span("aten::empty", start + 12, start + 14, parent=row + 3),
            span(
                "MmBackward0", start + 55, start + 85 + slow, "autograd", sequence_number=step,
                forward_thread=1, scope=RecordScope.BACKWARD_FUNCTION,
            ),
            span("point", start + 90 + slow, start + 90 + slow, parent=row),
        ]  # fmt: skip
        allocations += [
            allocation(start + 13, 4096, address=0x100 + step, event=row + 4),
            allocation(start + 60, 2048, "autograd", address=0x200 + step, event=row + 5),
            allocation(start + 80, -4096, "autograd", address=0x100 + step, event=row + 5),
        ]
        start += 110 + slow
    spans.append(span("unfinished", start, None))
    return build_trace(
        spans,
        allocations=allocations,
        gpu=[kernel("gemm_kernel", 20, 35, launch=3)],
        metadata={"program": "train.py", "options": {"shapes": True, "stack": False}},
        ledger={"events": {"recorded": 22, "dropped: memory budget": 0},
                "recorder": {"cost_ns: span": 46.0}},
    )  # fmt: skip


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


def test_sorting_and_filtering_operators(opened, training):
    report = opened(training)
    report.open_tab("operators")
    by_default = report.rows()
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


def test_a_row_leads_to_the_timeline(opened, training):
    report = opened(training)
    report.open_tab("operators")
    report.page.locator(".table-row", has_text="aten::mm").first.click()
    assert report.state("s.search.spanCount") == 3


def test_operators_by_shape(opened, training):
    report = opened(training)
    report.open_tab("operators")
    report.page.get_by_label("by input shape").check()
    assert "[64, 128], [128, 10]" in report.page.inner_text(".panel")


def test_the_flame_graph_follows_the_selection(opened, training):
    report = opened(training)
    report.open_tab("flame")
    crumbs = report.page.inner_text(".crumbs")
    assert "of 370 µs (recording, 370 µs, 3 steps); 3 lines at the same time" in crumbs
    report.state("s.selectRange({ from: 0, to: 50000 })")
    report.settle()
    report.settle()
    assert "of the selected 50.0 µs" in report.page.inner_text(".crumbs")


def test_what_is_said_of_a_flame_does_not_stay_over_other_panels(opened, training):
    report = opened(training)
    report.open_tab("flame")
    box = report.page.locator(".flame canvas").bounding_box()
    report.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    report.page.wait_for_selector(".tooltip:not([hidden])")
    report.page.keyboard.press("1")
    assert report.page.locator(".tooltip:not([hidden])").count() == 0


def test_a_wrong_expression_says_so(opened, training):
    report = opened(training)
    report.page.fill(".search input", "/aten::(mm/")
    assert "not a regular expression" in report.page.inner_text(".search-found")
    report.open_tab("operators")
    report.page.fill(".table-filter", "/aten::(mm/")
    assert "not a regular expression" in report.page.inner_text(".table-count")


def test_operators_are_operators_until_more_is_asked_for(opened, training):
    report = opened(training)
    report.open_tab("operators")
    assert "main" not in report.rows() and "aten::mm" in report.rows()
    report.page.get_by_label("Python calls too").check()
    assert "main" in report.rows()


def test_what_waits_comes_last_however_it_is_sorted(opened):
    wait = "<built-in method acquire of _thread.lock object at 0x7f>"
    spans = [
        span(wait, 0, 90, "other", kind=EventKind.C_CALL),
        span("<built-in function loads>", 5, 10, kind=EventKind.C_CALL),
    ]
    report = opened(build_trace(spans))
    assert "Waiting, which is no work" in report.page.inner_text(".panel")
    report.open_tab("operators")
    report.page.get_by_label("Python calls too").check()
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
    assert "What memory was for is not known: No recorded operator used" in text
    report.page.get_by_role("button", name="blocks", exact=True).click()
    assert len(report.rows()) == 4


def test_steps_are_compared(opened, training):
    report = opened(training)
    report.open_tab("steps")
    text = report.page.inner_text(".panel")
    assert "Step 1 was the slowest: 140 µs, 1.4 times the median" in text
    assert "backward: 40.0 µs more than usual" in text


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
    report.page.wait_for_url(re.compile("range=5000-60000"))
    again = opened(training, address=f"#{report.page.url.split('#')[1]}")
    assert again.state("[s.range.from, s.range.to, s.tab]") == [5000, 60000, "memory"]
    again.page.keyboard.press("Escape")
    again.page.wait_for_url(re.compile(r"html(#tab=memory)?$"))


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


def finding(**columns: Any) -> Findings:
    """One finding, of what is given and of nothing special."""
    given = {
        "id": "name-pattern", "title": "", "explanation": "", "advice": "", "occurrences": 2,
        "events": np.array([3, 10]), "time_ns": 60_000, "time_share": 0.2, "saved_ns": 40_000,
        "saved_share": 0.12, "saved_by": "", "measured": False, "places": (), "place_note": "",
        "link": "", **columns,
    }  # fmt: skip
    return Findings((Finding(**given),), ("absent",), (), 330_000)


def test_findings_lead_to_their_lines_and_spans(opened, training):
    place = Place("train.py", 12, "main", "Net_0", 2, 60_000)
    report = opened(training, findings=finding(title="Copies in a loop", places=(place,)))
    assert "Copies in a loop" in report.page.inner_text(".panel")  # in the overview
    report.page.locator(".finding-line").click()
    text = report.page.inner_text(".panel")
    assert "train.py:12 in main" in text
    assert "saves about 40.0 µs" in text
    for shown in ("2 of 2", "1 of 2"):
        report.page.get_by_role("button", name="in the timeline").click()
        assert report.state("s.spans.name(s.selected)") == "aten::mm"
        assert shown in report.page.inner_text(".finding .button")
    assert report.state("s.tab") == "findings"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("severity", ["high", "medium", "low"])
def test_how_severe_a_finding_is_can_be_read(opened, training, scheme, severity):
    share = {"high": 0.5, "medium": 0.05, "low": 0.01}[severity]
    report = opened(training, finding(saved_share=share), color_scheme=scheme)
    contrast = report.page.evaluate(
        f"(() => {{ const s = getComputedStyle(document.querySelector('.severity.{severity}'));"
        f" return ({CONTRAST})(s.color, s.backgroundColor); }})()"
    )
    assert contrast >= 4.5


def test_no_findings_are_said_to_be_none(opened, training):
    report = opened(training, findings=Findings((), ("a", "b"), (), 1))
    assert report.page.locator(".finding-line").count() == 0
    report.open_tab("findings")
    assert "Nothing found: 2 patterns were looked for" in report.page.inner_text(".panel")


def test_help_lists_the_keys_and_closes(opened, training):
    report = opened(training)
    report.page.keyboard.press("?")
    assert "zoom in, out" in report.page.inner_text("dialog")
    report.page.keyboard.press("Escape")
    assert not report.page.locator("dialog").is_visible()


@pytest.mark.parametrize("width", [390, 1280, 1440, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_panel_fits_in_light_and_dark(opened, training, scheme, width, tmp_path):
    report = opened(training, color_scheme=scheme)
    report.page.set_viewport_size({"width": width, "height": 800})
    assert report.state("s.theme.dark") is (scheme == "dark")
    for tab in TABS:
        report.open_tab(tab)
        wide = report.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, tab
        assert report.page.evaluate(CUT_OFF) == [], tab
        image = report.page.screenshot(path=tmp_path / f"{tab}.png")
        assert len(image) > 20_000
    report.page.keyboard.press("t")
    assert report.state("s.theme.dark") is (scheme != "dark")


def test_an_empty_trace_opens(opened):
    report = opened(Trace({}, Names.from_strings([])))
    for tab in TABS:
        report.open_tab(tab)
    report.page.keyboard.press("w")
    report.page.keyboard.press("/")
    report.page.keyboard.type("anything")
    report.page.keyboard.press("Enter")
    assert report.state("s.spans.count") == 0


@pytest.mark.parametrize(
    "spans",
    [
        [span("point", 5, 5)],
        [span("open", 5, None)],
        [span("a", 0, 10, parent=-1), span("b", 5, 15, parent=-1), span("c", 7, 20, parent=-1)],
        [span(f"deep{i}", i, 400 - i) for i in range(150)],
        [span("", 0, 1)],
    ],
    ids=["zero length", "unfinished", "overlapping", "deep", "no name"],
)
def test_unusual_spans_open(opened, spans):
    report = opened(build_trace(spans))
    for tab in TABS:
        report.open_tab(tab)
    assert report.state("s.spans.count") == len(spans)
    report.state("s.goTo(s.spans.count - 1)")
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
