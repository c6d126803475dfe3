"""Doubts about a trace's numbers, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.base.printable import printable
from opscope.base.quantity_text import time_text
from opscope.columns.ledger import END_MISSING, LOSS, WITHOUT_DURATION, Doubt, doubts_in
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError

_FEW = 0.01  # maximum share of durations that may be missing without a doubt about times
NO_TIMES = "no times were recorded"


def require_times(trace: TraceData) -> None:
    """Raise UsageError if the trace has no durations."""
    if not trace.has_times:
        raise UsageError(
            f"Here {NO_TIMES}, only the order of events. `opscope summary` counts calls, "
            "shapes, FLOPs and bytes."
        )


def doubts(trace: TraceData) -> list[str]:
    """One sentence for each kind of doubt; empty for nearly all traces."""
    ledger = trace.ledger
    found = [sentence(doubt) for doubt in doubts_in(ledger)]
    unknown = int(ledger.get("import", {}).get(WITHOUT_DURATION, 0))
    if unknown > _FEW * len(trace.events):
        found.append(f"{unknown:,} {WITHOUT_DURATION}")
    if END_MISSING in ledger.get("import", {}):
        found.append(f"{END_MISSING}: only the complete part was read")
    return found


def doubts_text(trace: TraceData, losses: bool = True) -> str:
    """Doubts and missing data in one line; empty for nearly all traces.

    ``losses``: whether to include what the recorder lost.
    """
    found = doubts(trace)
    lost = [
        f"{count:,.0f} ({printable(what.removeprefix(f'{LOSS}: '))})"
        for _, what, count in _lost(trace)
    ]
    parts = [
        "" if trace.has_times else NO_TIMES,
        "" if len(trace.events) or trace.is_empty else "only the work of devices was recorded",
        f"DOUBTFUL: {'; '.join(found)}" if found else "",
        f"DROPPED: {'; '.join(lost)}" if lost and losses else "",
    ]
    return ". ".join(part for part in parts if part)


def _lost(trace: TraceData) -> Iterator[tuple[str, str, float]]:
    """Losses of the recorder, without rows skipped by imports, whose counts have other reasons."""
    return (loss for loss in trace.ledger.losses() if loss[0] != "import")


def sentence(doubt: Doubt) -> str:
    """Text of a doubt, with counts and the largest error."""
    of = f" of {doubt.of:,}" if doubt.of else ""
    by = f", by up to {time_text(doubt.longest_ns)}" if doubt.longest_ns else ""
    return f"{doubt.count:,}{of} {printable(doubt.what)}{by}"
