"""A report in a real browser.

Needs Debian's chromium (or another Chromium in PATH) and the playwright package; skips without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from opscope.api.trace import Trace
from opscope.columns.schema import EventKind, RecordScope
from opscope.findings.finding import Findings
from opscope.jobs.rank_steps import RankSteps
from opscope.report.page import report_html
from opscope.storage.partition import Partition
from support.build_trace import allocation, build_trace, kernel, span, tensor

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
LAPTOP = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium to open reports with: make browser")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install playwright"
    )
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, as in containers.
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()


class Opened:
    """A report in a browser page, with everything it complained about or asked for."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_page(viewport=LAPTOP, **options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("console", self.hear)
        self.page.on("request", lambda request: self.requests.append(request.url.split("#")[0]))
        self.page.goto(address)
        self.page.wait_for_selector("#opscope[data-ready=true]", timeout=60_000)

    def hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def state(self, expression: str) -> Any:
        """The value of JavaScript in which ``s`` is the page's state."""
        return self.page.evaluate(f"(() => {{ const s = opscope.state; return {expression}; }})()")

    def wait_until(self, expression: str) -> None:
        """Wait until JavaScript as in ``state`` is true."""
        for _ in range(400):
            if self.state(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(expression)

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
        """Where the middle of the first span of a name is on the screen, scrolled to it."""
        index = self.state(f"s.spans.labels.indexOf({name!r})")
        span_ = self.state(f"Array.from(s.spans.label).indexOf({index})")
        box = self.page.locator("canvas.spans").bounding_box()
        start, end, depth = self.state(
            f"[s.spans.start[{span_}], s.spans.end[{span_}], s.spans.shown.depth[{span_}]]"
        )
        top = self.page.evaluate(
            f"""() => {{
                const top = opscope.app.timeline.layout.top(0, {depth});
                const scroller = document.querySelector(".scroller");
                scroller.scrollTop = top - scroller.clientHeight / 2;
                return top - scroller.scrollTop;
            }}"""
        )
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

    def open_(
        trace: Trace,
        findings: Findings | None = None,
        ranks: RankSteps | None = None,
        on_timeline: Collection[Partition] = (),
        address: str = "",
        **options: Any,
    ) -> Opened:
        html = report_html(trace, findings=findings, ranks=ranks, on_timeline=on_timeline)
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        pages.append(Opened(browser, path.as_uri() + address, **options))
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
def visit(browser: Any) -> Iterator[Any]:
    """Opens the page at an address."""
    pages: list[Opened] = []

    def visit_(address: str) -> Opened:
        pages.append(Opened(browser, address))
        return pages[-1]

    yield visit_
    for visited in pages:
        visited.page.close()


@pytest.fixture
def view() -> Iterator[Any]:
    """Starts ``opscope view`` with arguments; the process and the address of its page."""
    running: list[subprocess.Popen[str]] = []

    def start(
        *arguments: Path, program: tuple[str, ...] = ("-m", "opscope")
    ) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, *program, "view", *map(str, arguments), "--no-open"]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        lines = iter(running[-1].stderr.readline, "")  # type: ignore[union-attr]
        found = (re.search(r"open (http\S+)", line) for line in lines)
        return running[-1], next(one[1] for one in found if one)

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=10)


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
                "recorder": {"cost_ns of one operator": 46.0}},
    )  # fmt: skip
