"""Notes about a trace: dropped events, overhead, how it ended, reason of a dump."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from opscope.analysis.last_actions import how_it_ended, last_actions
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.printable import printable
from opscope.columns.ledger import (
    LOSS,
    NEWER,
    NOT_EXPORTED,
    NOT_KNOWN_MS,
    NOT_SHOWN,
    WITHOUT_DURATION,
    Ledger,
    recorded_for,
)
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import LEFT_OUT, SHOWN
from opscope.timeline.detail import detail_text


def describe_completeness(trace: TraceData, events: int | None = None) -> str:
    """Sentence about recorded and dropped events, and the overhead.

    ``events``: number of events of the recording, if the trace is a part of it.
    """
    ledger = trace.ledger
    count = len(trace.events) if events is None else events
    if not ledger:
        return f"{count:,} events; the number of dropped events is unknown"
    parts = [f"{count:,} events", _dropped(ledger)]
    parts += [text] if (text := detail_text(trace.metadata)) else []
    parts += [*_clock_notes(ledger), *_budget_notes(ledger), *_newer_notes(ledger)]
    if unknown := ledger.get("import", {}).get(WITHOUT_DURATION):
        parts.append(f"{unknown:,.0f} {WITHOUT_DURATION}")
    parts += [
        f"{count:,.0f} {what.removeprefix(NOT_SHOWN)} are not shown"
        for what, count in ledger.get("import", {}).items()
        if what.startswith(NOT_SHOWN)
    ]
    parts += _export_notes(ledger)
    cost_ns = cost_of_an_event_ns(trace)
    if cost_ns:
        parts.append(f"about {cost_ns:.0f} ns of overhead each")
    return ", ".join(parts)


def end_of_recording(trace: TraceData) -> list[str]:
    """How an unstopped recording ended, and the last action of each thread; else empty."""
    how = how_it_ended(trace)
    if not how:
        return []
    actions = [printable(str(action)) for action in last_actions(trace)]
    return [*actions[:1], f"the recording was not stopped: {how}", *actions[1:]]


def _dropped(ledger: Ledger) -> str:
    reasons = [
        f"{source}: {value:,.0f} DROPPED ({what.removeprefix(f'{LOSS}: ')})"
        for source, what, value in ledger.losses()
    ]
    return ", ".join(reasons) or "none dropped"


def _budget_notes(ledger: dict[str, dict[str, float]]) -> list[str]:
    """Notes on data that was recorded only for a part of the time, because of the budget."""
    not_known_ms = ledger.get("flight recorder", {}).get(NOT_KNOWN_MS, 0.0)
    unknown = f"what the budget omitted in its last {not_known_ms / 1e3:.1f} s is unknown"
    recorded = recorded_for(ledger)
    return [f"{recorded} (the budget)"] * bool(recorded) + [unknown] * bool(not_known_ms)


def _export_notes(ledger: dict[str, dict[str, float]]) -> list[str]:
    rows = [what for what in ledger.get("import", {}) if what.startswith(NOT_EXPORTED)]
    tables = ", ".join(what.removeprefix(NOT_EXPORTED) for what in rows)
    return (
        [f"the recording also had {tables}, which this file format cannot contain"] if rows else []
    )


def _clock_notes(ledger: dict[str, dict[str, float]]) -> list[str]:
    return [f"the CLOCK {what}: {value:,.0f}" for what, value in ledger.get("clock", {}).items()]


def _newer_notes(ledger: dict[str, dict[str, float]]) -> list[str]:
    notes = []
    for what, value in ledger.get(NEWER, {}).items():
        fate, _, of_what = what.partition(": ")
        if fate == SHOWN:
            notes.append(f"{value:,.0f} {of_what} {fate}")
        elif fate == LEFT_OUT:
            notes.append(f"{of_what} {fate}")
    return [f"from a newer opscope (upgrade to see it): {', '.join(notes)}"] if notes else []


def describe_dump(trace: TraceData) -> str:
    """Reason, time and duration of a dump; empty for other traces."""
    dump = trace.metadata.get("dump")
    if not isinstance(dump, dict):
        return ""
    time = datetime.fromtimestamp(dump["time_ns"] / 1e9, timezone.utc)
    why = f"{dump['reason']} ({dump['detail']})" if dump["detail"] else str(dump["reason"])
    return f"dump because of: {why}, at {time:%Y-%m-%d %H:%M:%S} UTC; {_dump_length(dump)}"


def _dump_length(dump: dict[str, Any]) -> str:
    held_s, requested_s = float(dump["held_s"]), float(dump["requested_s"])
    if held_s >= requested_s:
        return f"the last {held_s:.3g} s"
    return f"the last {held_s:.3g} s of the requested {requested_s:.3g} s ({dump['limited_by']})"
