"""What makes times and shares of a recording less than true: said where they stand."""

from __future__ import annotations

from opscope.analysis.findings.delays import waited_share
from opscope.analysis.findings.finding import Findings
from opscope.analysis.findings.subject import FEW_DROPPED, dropped_share
from opscope.analysis.quantity_text import share_text
from opscope.trace.trace import Trace

_BUSY = 0.2
"""Of the time; less is noise of any machine."""


def caveats_of(trace: Trace) -> list[str]:
    """Of a recording or a part of it; mostly none."""
    return _caveats(dropped_share(trace), waited_share(trace))


def caveats_of_findings(findings: Findings) -> list[str]:
    """Likewise, of what was found out already."""
    return _caveats(findings.dropped_share, findings.waited_share)


def _caveats(dropped: float, waited: float | None) -> list[str]:
    found = []
    if dropped > FEW_DROPPED:
        found.append(f"{share_text(dropped)} of the events were dropped, and are in no share")
    if waited is not None and waited >= _BUSY:
        found.append(
            f"the machine was busy: {share_text(waited)} of the time the program waited for a "
            "processor"
        )
    return found
