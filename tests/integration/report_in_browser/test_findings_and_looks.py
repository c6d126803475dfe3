"""Findings, help, and whether everything can be read and fits."""

from __future__ import annotations

import pytest

from opscope.analysis.sites import Place
from opscope.findings.finding import Findings
from support.finding import finding

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

TABS = ["overview", "findings", "devices", "selection", "operators", "modules", "sources", "flame",
        "memory", "steps", "run"]  # fmt: skip


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
def test_how_severe_a_finding_is_can_be_read(opened, training, scheme):
    found = [finding(saved_share=share).found[0] for share in (0.5, 0.05, 0.01)]
    report = opened(training, Findings(tuple(found), (), (), 330_000), color_scheme=scheme)
    for severity in ("high", "medium", "low"):
        contrast = report.page.evaluate(
            f"(() => {{ const s = getComputedStyle(document.querySelector('.severity.{severity}'));"
            f" return ({CONTRAST})(s.color, s.backgroundColor); }})()"
        )
        assert contrast >= 4.5, severity


def test_no_findings_are_reported_to_be_none(opened, training):
    report = opened(training, findings=Findings((), ("a", "b"), (), 1))
    assert report.page.locator(".finding-line").count() == 0
    report.open_tab("findings")
    assert "No known problem: 2 checks ran" in report.page.inner_text(".panel")


def test_help_lists_the_keys_and_closes(opened, training):
    report = opened(training)
    report.page.keyboard.press("?")
    assert "zoom in, out" in report.page.inner_text("dialog")
    report.page.keyboard.press("Escape")
    assert not report.page.locator("dialog").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_panel_fits_in_light_and_dark(opened, training, scheme):
    report = opened(training, color_scheme=scheme)
    assert report.state("s.theme.dark") is (scheme == "dark")
    for width in (1920, 1280, 390):
        report.page.set_viewport_size({"width": width, "height": 800})
        for tab in TABS:
            report.open_tab(tab)
            wide = report.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, (tab, width)
            assert report.page.evaluate(CUT_OFF) == [], (tab, width)
    assert len(report.page.screenshot()) > 20_000
    report.page.keyboard.press("t")
    assert report.state("s.theme.dark") is (scheme != "dark")
