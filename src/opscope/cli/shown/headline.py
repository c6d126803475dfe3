"""What ``opscope run`` ends with: where the time went, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.analysis.account.account import Account
from opscope.analysis.account.find import find_account
from opscope.analysis.top_operators import (
    DEFAULT_SORT,
    TopOperators,
    find_top_operators,
    ran_anything,
)
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.shown.caveats import caveats_of
from opscope.cli.shown.finding_sections import (
    finding_sections,
    line_here,
    place_text,
    saving_text,
    state_of,
)
from opscope.cli.shown.results import as_text
from opscope.columns.causes import Cause
from opscope.columns.location import line_texts
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.timeline.doubts import doubts_text
from opscope.timeline.period import Period, period_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_NAMES = 3
_MOST_FINDINGS = 3
_LITTLE, _MOST_OF_IT = 0.01, 0.5
"""Shares of the time."""
_MOST_EVENTS = 1_000_000
"""What to change takes about 5 µs and 600 bytes for each."""
_WAITS = (
    *(Cause.LOADER, Cause.LOCK, Cause.DEVICE, Cause.COLLECTIVE, Cause.IO, Cause.TIMER),
    Cause.BACKWARD,
)


def headline(trace: TraceData) -> list[str]:
    """Two lines; none for a trace without operators."""
    if not ran_anything(trace) or not trace.has_times:
        return []
    top = find_top_operators(period_of(trace), sort_by=DEFAULT_SORT, row_limit=_MOST_NAMES)
    if not top.rows:
        return []
    if len(trace.events) > _MOST_EVENTS:
        return [_most_time(top, []), "what to change: `opscope findings` says, as it takes a while"]
    return [_most_time(top, _without_work(trace)), _first_finding(trace)]


def what_to_change(trace: TraceData) -> RenderableType:
    """The first few findings, in full."""
    sections = finding_sections(find_findings(trace), line_texts(trace), _MOST_FINDINGS)
    return as_text(sections, width=0)  # no table is among them


def _most_time(top: TopOperators, first: list[str]) -> str:
    wall_ns = top.period.wall_ns
    shares = [(row["name"], row["cpu_self_ns"] / wall_ns) for row in top.rows]
    names = first + [f"{name} {share_text(share)}" for name, share in shares if share >= _LITTLE]
    most = ", ".join(names[:_MOST_NAMES]) or "nothing that was recorded took 1%"
    whole = f"{time_text(wall_ns)}{_left_out(top.period)}"
    doubtful = [text] if (text := doubts_text(top.period.trace)) else []
    return "; ".join([f"most time: {most} of {whole}", *doubtful, *caveats_of(top.period.trace)])


def _without_work(trace: TraceData) -> list[str]:
    """What the main thread did nothing for most of the time for, where nothing else did more."""
    account = find_account(trace)
    first = next(iter(account.entries()), None)
    if first is None or first.share < _MOST_OF_IT or first.cause not in _WAITS:
        return []
    others = (row for row in range(len(account.threads)) if row != account.main)
    if any(_busy_share(account, row) > _MOST_OF_IT * first.share for row in others):
        return []
    return [f"{first.cause.title} {share_text(first.share)}"]


def _busy_share(account: Account, thread: int) -> float:
    entries = account.entries(thread=thread)
    return sum(e.share for e in entries if e.cause not in (*_WAITS, Cause.IDLE, Cause.UNKNOWN))


def _left_out(period: Period) -> str:
    took, leaving = period.start_up.took_ns, period.start_up.exit_ns
    parts = [f"{time_text(took)} of start-up"] if took else []
    parts += [f"{time_text(leaving)} after its end"] if leaving else []
    return f" (besides {' and '.join(parts)})" if parts else ""


def _first_finding(trace: TraceData) -> str:
    findings = find_findings(trace)
    foremost = findings.foremost(len(findings))
    if not foremost:
        unexplained = findings.unexplained
        left = f"; {unexplained.text(line_here)}" if unexplained is not None else ""
        return f"what to change: {state_of(findings, 0)}{left}"
    first = foremost[0]
    where = ""
    if first.places:
        said = first.places[0].said(line_texts(trace))
        where = f", at {place_text(first.places[0])}" + (f" (`{said}`)" if said else "")
    more = f"; {len(findings) - 1} more in the summary" if len(findings) > 1 else ""
    return f"what to change: {first.title}, {saving_text(first)}{where}{more}"
