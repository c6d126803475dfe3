"""What an analysis wants a reader of the report to know: the contract of its findings panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from opscope.report.shown_text import shown
from opscope.report.span_section import Spans


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing worth looking at.

    Attributes:
        title: one line.
        explanation: what it means and what to do.
        severity: how much it matters.
        events: rows of ``events`` it is about; the page can go to each.
        time_ns: time that could be saved or is concerned; None if that cannot be said.
        sources: ``file:line`` of the places in the program.
        link: where to read on.
    """

    title: str
    explanation: str
    severity: Literal["high", "medium", "low"] = "medium"
    events: tuple[int, ...] = ()
    time_ns: int | None = None
    sources: tuple[str, ...] = ()
    link: str = ""


_MOST_SPANS = 1000
_ORDER = {"high": 0, "medium": 1, "low": 2}


def finding_section(findings: tuple[Finding, ...], spans: Spans) -> list[dict[str, Any]]:
    """Most severe first."""
    ranked = sorted(findings, key=lambda f: (_ORDER[f.severity], -(f.time_ns or 0)))
    return [
        {
            "title": shown(finding.title),
            "explanation": shown(finding.explanation),
            "severity": finding.severity,
            "time": finding.time_ns,
            "count": len(finding.events),
            "spans": [int(spans.position[event]) for event in finding.events[:_MOST_SPANS]],
            "sources": [shown(source) for source in finding.sources],
            "link": finding.link if finding.link.startswith("https://") else "",
        }
        for finding in ranked
    ]
