"""What opscope view shows beside one trace: two traces, a memory snapshot; marks in the address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.build_trace import build_trace, span
from support.memory_snapshots import made_snapshot, write_snapshot


def test_two_traces_with_what_differs_and_marks_that_a_link_keeps(
    visit: Any, view: Any, tmp_path: Path
) -> None:
    for name, calls in (("old", 2), ("new", 5)):
        spans = []
        for at in range(0, 16_000, 1000):
            spans.append(span(f"ProfilerStep#{at // 1000}", at, at + 900))
            spans += [span("aten::mm", at + 10 * i, at + 10 * i + 9) for i in range(calls)]
        build_trace(spans).save(tmp_path / name)
    _, address = view(tmp_path / "old", tmp_path / "new")
    first = visit(address)
    page = first.page
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
    again = visit(page.url)
    assert again.page.eval_on_selector_all(".name-title", titles) == before[::-1]
    assert again.state("s.notes.map(note => note.text)") == ["<b>slow</b> here"]
    assert [one for one in first.complaints if not one.startswith("dialog ")] == []
    assert again.complaints == []


def test_a_memory_snapshot(visit: Any, view: Any, tmp_path: Path) -> None:
    snapshot, protocol = made_snapshot("several devices", 0)
    write_snapshot(tmp_path / "snapshot.pickle", snapshot, protocol)
    _, address = view(tmp_path / "snapshot.pickle")
    visited = visit(address)
    page = visited.page
    assert page.locator("[data-tab]").all_inner_texts() == ["Memory"]
    assert "Peak: " in page.inner_text(".memory-peak")
    page.click(".segment >> text=stack")
    bars = page.locator(".memory-flame .flame-bar")
    assert "in step" in " ".join(bars.all_inner_texts())
    (outer,) = [one for one in bars.all() if one.inner_text().endswith("99 in <module>")]
    outer.click()
    assert page.locator(".memory-flame .flame-bar").nth(0).inner_text().endswith("99 in <module>")
    assert visited.complaints == []
