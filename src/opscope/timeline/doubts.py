"""Doubts about a trace's numbers, as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.base.printable import printable
from opscope.base.quantity_text import time_text
from opscope.columns.ledger import END_MISSING, LOSS, WITHOUT_DURATION, Doubt, doubts_in
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError

_FEW = 0.01
"""Share of durations that may be missing without a doubt about times."""

NO_TIMES = "no times were recorded"


def require_times(trace: TraceData) -> None:
    """Raise UsageError where the trace has no durations."""
    if not trace.has_times:
        raise UsageError(
            f"Here {NO_TIMES}, only the order of events. `opscope summary` counts calls, "
            "shapes, FLOPs and bytes."
        )


def doubts(trace: TraceData) -> list[str]:
    """One for each kind; empty for nearly all traces."""
    ledger = trace.ledger
    found = [sentence(doubt) for doubt in doubts_in(ledger)]
    unknown = int(ledger.get("import", {}).get(WITHOUT_DURATION, 0))
    if unknown > _FEW * len(trace.events):
        found.append(f"{unknown:,} {WITHOUT_DURATION}")
    if END_MISSING in ledger.get("import", {}):
        found.append(f"{END_MISSING}: only the complete part was read")
    return found


def doubts_text(trace: TraceData, losses: bool = True) -> str:
    """The same in one line, with what was not recorded; empty for nearly all traces.

    ``losses``: with what the recorder lost.
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
    """Losses of the recorder; the counts of skipped rows of a file include their reason."""
    return (loss for loss in trace.ledger.losses() if loss[0] != "import")


def sentence(doubt: Doubt) -> str:
    """It in words, with how many of how many and by how much."""
    of = f" of {doubt.of:,}" if doubt.of else ""
    by = f", by up to {time_text(doubt.longest_ns)}" if doubt.longest_ns else ""
    return f"{doubt.count:,}{of} {printable(doubt.what)}{by}"
