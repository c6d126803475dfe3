"""What ``opscope run`` ends with: where the time went, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.analysis.findings.find import find_findings
from opscope.analysis.period import Period, period_of
from opscope.analysis.program_lines import line_texts
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli.finding_formats import (
    as_text,
    line_here,
    place_text,
    said_at,
    saving_text,
    state_of,
)
from opscope.cli.top_operators import DEFAULT_SORT, TopOperators, find_top_operators, ran_anything
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_NAMES = 3
_MOST_FINDINGS = 3


def headline(trace: Trace) -> list[str]:
    """Two lines; none for a trace without operators."""
    if not ran_anything(trace) or not trace.has_times:
        return []
    top = find_top_operators(period_of(trace), sort_by=DEFAULT_SORT, row_limit=_MOST_NAMES)
    return [_most_time(top), _first_finding(trace)] if top.rows else []


def what_to_change(trace: Trace) -> RenderableType:
    """The first few findings, in full."""
    return as_text(find_findings(trace), line_texts(trace), _MOST_FINDINGS)


def _most_time(top: TopOperators) -> str:
    wall_ns = top.period.wall_ns
    names = [f"{row['name']} {share_text(row['cpu_self_ns'] / wall_ns)}" for row in top.rows]
    return f"most time: {', '.join(names)} of {time_text(wall_ns)}{_left_out(top.period)}"


def _left_out(period: Period) -> str:
    took, leaving = period.start_up.took_ns, period.start_up.exit_ns
    after = f" and {time_text(leaving)} after its end" if leaving else ""
    return f" (besides {time_text(took)} of start-up{after})" if took else ""


def _first_finding(trace: Trace) -> str:
    findings = find_findings(trace)
    foremost = findings.foremost(len(findings))
    if not foremost:
        unexplained = findings.unexplained
        left = f"; {unexplained.text(line_here)}" if unexplained is not None else ""
        return f"what to change: {state_of(findings, 0)}{left}"
    first = foremost[0]
    where = ""
    if first.places:
        said = said_at(first.places[0], line_texts(trace))
        where = f", at {place_text(first.places[0])}" + (f" (`{said}`)" if said else "")
    more = f"; {len(findings) - 1} more in the summary" if len(findings) > 1 else ""
    return f"what to change: {first.title}, {saving_text(first)}{where}{more}"
