"""What of a trace's numbers is doubtful, in sentences for the lines that print them."""

from __future__ import annotations

from opscope.analysis.quantity_text import time_text
from opscope.trace.doubts import Doubt, doubts_in
from opscope.trace.ledger_rows import END_MISSING, WITHOUT_DURATION
from opscope.trace.trace import Trace

_FEW = 0.01
"""So small a share of the durations may be missing from what is said of times without any."""


def doubts(trace: Trace) -> list[str]:
    """One for each kind; empty for nearly all traces."""
    ledger = trace.ledger
    found = [sentence(doubt) for doubt in doubts_in(ledger)]
    unknown = int(ledger.get("import", {}).get(WITHOUT_DURATION, 0))
    if unknown > _FEW * len(trace.events):
        found.append(f"{unknown:,} {WITHOUT_DURATION}")
    if END_MISSING in ledger.get("import", {}):
        found.append(f"{END_MISSING}: this is what was whole of it")
    return found


def doubts_text(trace: Trace) -> str:
    """The same in one line; empty where there are none."""
    found = doubts(trace)
    return f"DOUBTFUL: {'; '.join(found)}" if found else ""


def sentence(doubt: Doubt) -> str:
    """It in words, with how many of how many and by how much."""
    of = f" of {doubt.of:,}" if doubt.of else ""
    by = f", by up to {time_text(doubt.longest_ns)}" if doubt.longest_ns else ""
    return f"{doubt.count:,}{of} {doubt.what}{by}"
