"""What makes the program slow, for the page's findings panel."""

from __future__ import annotations

from typing import Any

from opscope.analysis.sites import Place
from opscope.findings.finding import Finding, Findings
from opscope.report.shown_text import shown
from opscope.report.span_section import Spans

_MOST_SPANS = 1000


def finding_section(findings: Findings, spans: Spans | None) -> dict[str, Any]:
    """Those that would save most first; then what was looked for, and what could not be.

    ``spans``: those that the timeline shows, if they are of the same trace.
    """
    return {
        "found": [_finding(finding, spans) for finding in findings],
        "absent": len(findings.absent),
        "notes": [shown(note) for note in findings.notes],
        "lookedAt": shown(findings.looked_at),
        "unchecked": [
            {"title": shown(one.title), "needs": shown(one.needs)} for one in findings.unchecked
        ],
    }


def _finding(finding: Finding, spans: Spans | None) -> dict[str, Any]:
    return {
        "id": finding.id,
        "title": shown(finding.title),
        "explanation": shown(finding.explanation),
        "advice": shown(finding.advice),
        "severity": finding.severity,
        "time": finding.time_ns,
        "timeShare": finding.time_share,
        "saved": finding.saved_ns,
        "savedShare": finding.saved_share,
        "savedBy": shown(finding.saved_by),
        "measured": finding.measured,
        "count": finding.occurrences,
        "spans": []
        if spans is None
        else [int(spans.position[event]) for event in finding.events[:_MOST_SPANS]],
        "places": [_place(place) for place in finding.places],
        "placeNote": finding.place_note,
        "link": finding.link if finding.link.startswith("https://") else "",
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "text": shown(str(place)),
        "function": shown(place.function),
        "module": shown(place.module if place.file else ""),
        "count": place.occurrences,
        "time": place.time_ns,
    }
