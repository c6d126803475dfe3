"""What ``opscope run`` ends with: the verdict, and on request all that there is to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.analysis.top_operators import ran_anything
from opscope.cli.shown.finding_sections import finding_sections, place_text
from opscope.cli.shown.results import Section, as_text
from opscope.columns.location import line_texts
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.verdict import Verdict, find_verdict, quick_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_FINDINGS = 3
MOST_EVENTS = 1_000_000
"""The verdict takes about 5 µs and 600 bytes for each."""


def headline(trace: TraceData) -> list[str]:
    """The verdict in a few lines; none for a trace without operators."""
    if not ran_anything(trace) or not trace.has_times:
        return []
    if len(trace.events) > MOST_EVENTS:
        return [quick_line(trace), "what to change: `opscope why` says, as it takes a while"]
    return verdict_lines(find_verdict(trace))


def verdict_lines(verdict: Verdict) -> list[str]:
    """As ``Verdict.lines``, with files relative to the current folder."""
    return verdict.lines(place_text)


def verdict_section(verdict: Verdict) -> Section:
    """The same as a section, which is the first."""
    return Section(notes=verdict_lines(verdict))


def what_to_change(trace: TraceData) -> RenderableType:
    """The first few findings, in full."""
    sections = finding_sections(find_findings(trace), line_texts(trace), _MOST_FINDINGS)
    return as_text(sections, width=0)  # no table is among them
