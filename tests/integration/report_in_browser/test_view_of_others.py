"""What opscope view shows beside one trace: two traces, a memory snapshot; marks in the address."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.build_trace import build_trace, span
from support.memory_snapshots import made_snapshot, write_snapshot

View = Callable[..., str]


@pytest.fixture
def view() -> Iterator[View]:
    """Starts ``opscope view`` with arguments, and returns the address of its page."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: Path) -> str:
        command = [sys.executable, "-m", "opscope", "view", *map(str, arguments), "--no-open"]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        lines = iter(running[-1].stderr.readline, "")  # type: ignore[union-attr]
        return next(found[1] for line in lines if (found := re.search(r"open (http\S+)", line)))

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=10)


def opened(browser: Any, address: str) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#opscope[data-ready=true]", timeout=60_000)
    return page


def test_two_traces_with_what_differs_and_marks_that_a_link_keeps(
    browser: Any, view: View, tmp_path: Path
) -> None:
    for name, calls in (("old", 2), ("new", 5)):
        spans = []
        for at in range(0, 16_000, 1000):
            spans.append(span(f"ProfilerStep#{at // 1000}", at, at + 900))
            spans += [span("aten::mm", at + 10 * i, at + 10 * i + 9) for i in range(calls)]
        build_trace(spans).save(tmp_path / name)
    address = view(tmp_path / "old", tmp_path / "new")
    page = opened(browser, address)
    page.click("[data-tab=differences]")
    assert "aten::mm, forward" in page.inner_text(".differences")
    titles = "nodes => nodes.map(node => node.textContent)"
    before = page.eval_on_selector_all(".name-title", titles)
    assert sorted(title[:2] for title in before) == ["A:", "B:"]
    page.hover(".name-holder >> nth=1")
    page.click(".name-holder >> nth=1 >> .pin")
    page.on("dialog", lambda dialog: dialog.accept("<b>slow</b> here"))
    page.keyboard.press("m")
    page.wait_for_url(re.compile("#.*pin=.*note="))
    again = opened(browser, page.url)
    assert again.eval_on_selector_all(".name-title", titles) == before[::-1]
    assert again.evaluate("opscope.state.notes.map(note => note.text)") == ["<b>slow</b> here"]
    assert page.complaints == again.complaints == []
    page.close()
    again.close()


def test_a_memory_snapshot(browser: Any, view: View, tmp_path: Path) -> None:
    snapshot, protocol = made_snapshot("several devices", 0)
    write_snapshot(tmp_path / "snapshot.pickle", snapshot, protocol)
    page = opened(browser, view(tmp_path / "snapshot.pickle"))
    assert page.locator("[data-tab]").all_inner_texts() == ["Memory"]
    assert "Peak: " in page.inner_text(".memory-peak")
    page.click(".segment >> text=stack")
    bars = page.locator(".memory-flame .flame-bar")
    assert "in step" in " ".join(bars.all_inner_texts())
    (outer,) = [one for one in bars.all() if one.inner_text().endswith("99 in <module>")]
    outer.click()
    assert page.locator(".memory-flame .flame-bar").nth(0).inner_text().endswith("99 in <module>")
    assert page.complaints == []
    page.close()
