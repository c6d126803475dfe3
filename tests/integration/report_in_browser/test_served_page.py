"""A page that opscope view serves: windows of a long trace, search, queries, and its end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.build_trace import build_trace, span
from support.repeat_trace import repeat_trace

STEPS = 60
NEEDLE_IN_VIEW = "s.view.from < 41.003e6 && s.view.to > 41.003e6"
VIEW = """
import sys
from opscope.cli import main, view
from opscope.report import windows
view.MOST_ON_PAGE = 1000
windows._MOST_UNMERGED = 5000
windows._FINEST_PARTS = 500
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    step = [span("train", 0, 990)]
    step += [span("needle" if i == 3 else f"aten::op{i % 5}", i, i + 0.5) for i in range(985)]
    trace = repeat_trace(build_trace(step), STEPS, 1_000_000)
    names = trace.events["name"].copy()
    needles = np.flatnonzero(names == trace.names.find("needle"))
    names[np.delete(needles, 41)] = trace.names.find("aten::op1")
    folder = tmp_path_factory.mktemp("view") / "long"
    trace.with_tables({"events": trace.events.replaced({"name": names})}).save(folder)
    return folder


@pytest.fixture
def served(long_trace: Path, view: Any) -> Any:
    """``opscope view`` as of a long trace, and its address."""
    return view(long_trace, program=("-c", VIEW))


def test_a_long_trace_is_shown_window_by_window(visit: Any, served: Any) -> None:
    process, address = served
    page = visit(address)
    assert page.state("s.report.run.counts.events") == 59_160
    assert page.state("s.spans.window.least") > 0
    assert page.state("s.spans.count") < 30_000

    page.state("s.setView(41e6, 41.02e6)")  # 20 microseconds
    page.wait_until("s.spans.window.least === 0 && s.spans.window.from > 0")
    names = page.state("Array.from(s.spans.label, l => s.spans.labels[l])")
    assert "needle" in names
    assert "train" in names  # it began long before
    page.state("s.select(Array.from(s.spans.label, l => s.spans.labels[l]).indexOf('needle'))")
    assert "needle" in page.page.inner_text(".details h3")

    page.state("s.showAll()")
    page.wait_until("s.spans.window.least > 0")
    assert page.state("s.selected") == -1  # it is merged there

    page.page.fill("input[type=search]", "needle")
    page.wait_until("document.querySelector('.search-found').textContent.startsWith('1 ·')")
    page.page.keyboard.press("Enter")
    page.wait_until(f"{NEEDLE_IN_VIEW} && s.view.to - s.view.from < 1e5")

    page.page.click("[data-tab=sql]")
    page.page.fill(".sql-query", "select start_us from named_events where name = 'needle'")
    page.page.click("text=Run (Ctrl+Enter)")
    page.page.wait_for_selector(".sql-answer tr.link")
    page.state("s.showAll()")
    page.page.click(".sql-answer tr.link")
    page.wait_until(f"{NEEDLE_IN_VIEW} && s.view.to - s.view.from < 1e6")
    page.page.fill(".sql-query", "select * from nothing")
    page.page.click("text=Run (Ctrl+Enter)")
    page.page.wait_for_selector(".sql-answer .failure")

    own = address.split("/")[2]
    assert all(url.split("/")[2] == own for url in page.requests if url.startswith("http"))
    assert [text for text in page.complaints if "400" not in text] == []
    page.page.close()
    process.wait(30)
    assert process.returncode == 0


def test_the_page_says_when_the_server_has_ended(visit: Any, served: Any) -> None:
    process, address = served
    page = visit(address)
    process.kill()
    process.wait(10)
    time.sleep(0.2)
    page.state("s.setView(10e6, 10.01e6)")
    page.wait_until("!document.querySelector('p.failure[role=alert]').hidden")
    assert "opscope view has ended" in page.page.inner_text("p.failure[role=alert]")
    page.page.close()
