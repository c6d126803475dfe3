"""The page: whole, inert, and safe whatever a trace holds."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from opscope.api.trace import Trace
from opscope.base.printable import printable
from opscope.columns.names import Names
from opscope.errors import OpscopeError, UsageError
from opscope.report import page as page_module
from opscope.report.page import report_html, snapshot_html, write_report
from opscope.storage.snapshot import read_snapshot
from support.build_trace import build_trace, span
from support.memory_snapshots import KINDS, known_memory, made_snapshot, write_snapshot
from support.read_report import read_page, read_report

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "\x00\x08\x1b[2J",
    "\u2028\u2029\u202e",
    "\ud800 alone",
    "'\"`${1}{0}{report}",
    "x" * 2_000_000,
]


@pytest.fixture(scope="module")
def harmless_html():
    return report_html(build_trace([("aten::mm", 0, 1)]))


def test_the_page_is_one_file_that_asks_for_nothing(harmless_html):
    page = read_page(harmless_html)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form"), tag
        assert not {"src", "href", "action", "data"} & set(attributes), (tag, attributes)
    assert not re.search(r"@import|url\(\s*['\"]?http", harmless_html)
    assert [tag for tag, _ in page.tags].count("script") == 3


def test_only_its_own_program_and_style_may_run(harmless_html):
    page = read_page(harmless_html)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    style, program = [text for attributes, text in page.texts if not attributes]
    for kind, text in (("style", style), ("script", program)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", HOSTILE, ids=[repr(name[:20]) for name in HOSTILE])
def test_hostile_names_are_data(name, harmless_html):
    trace = build_trace(
        [span(name, 0, 10, name), span("aten::mm", 2, 3, name, inputs=[name])],
        metadata={"program": name, "user": {name: name}, "options": {name: True}},
        ledger={name: {name: 1.0}},
    )
    html = report_html(trace)
    page = read_page(html)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in read_page(harmless_html).tags]
    shown = read_report(html).data["spans"]["labels"]["text"][0]
    expected = printable(name.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    assert shown == expected or shown.startswith(expected[:1000] + "…")
    assert len(html) < 1_000_000


def test_the_title_is_text(tmp_path):
    write_report(build_trace([("a", 0, 1)]), tmp_path / "a.html", title="<b>& mine")
    assert read_page((tmp_path / "a.html").read_text()).title == "<b>& mine"


def test_an_empty_trace_is_a_page():
    report = read_report(report_html(Trace({}, Names.from_strings([]))))
    assert report.spans == []
    assert report.data["modules"] is report.data["sources"] is report.data["steps"] is None
    assert report.data["memory"] == report.data["findings"]["found"] == []


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="Cannot write"):
        write_report(build_trace([]), tmp_path / "no" / "a.html")


def test_a_missing_bundle_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(page_module, "_BUNDLE", tmp_path)
    page_module.bundled.cache_clear()
    with pytest.raises(OpscopeError, match="npm --prefix web run build"):
        report_html(build_trace([]))
    page_module.bundled.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_tab_has_every_device(tmp_path, kind):
    snapshot, protocol = made_snapshot(kind, 0)
    write_snapshot(tmp_path / "s.pickle", snapshot, protocol)
    report = read_report(snapshot_html(read_snapshot(tmp_path / "s.pickle"), "s")).data
    for index, device in enumerate(report["memory"]):
        assert device["device"] == f"CUDA {index}"
        assert device["peakBytes"] == known_memory(kind, 0, index)["peak"]
        assert max(device["total"]) <= device["peakBytes"]
        for groups in (device["stacks"], device["groups"]["line"]):
            assert sum(group["bytes"] for group in groups) == device["peakBytes"]
        assert 0 <= device["peakTime"] <= report["run"]["duration"]
