"""How busy the machine was, which makes times longer. What was lost is said with the period
(``timeline/doubts.py``)."""

from __future__ import annotations

from opscope.base.quantity_text import share_text
from opscope.columns.trace_data import TraceData
from opscope.findings.finding import Findings
from opscope.findings.program_time import waited_share

_BUSY = 0.2
"""Of the time; less is noise of any machine."""


def caveats_of(trace: TraceData) -> list[str]:
    """Of a recording or a part of it; mostly none."""
    return _caveats(waited_share(trace))


def caveats_of_findings(findings: Findings) -> list[str]:
    """Likewise, of what was found out already."""
    return _caveats(findings.waited_share)


def _caveats(waited: float | None) -> list[str]:
    if waited is None or waited < _BUSY:
        return []
    return [
        f"the machine was busy: {share_text(waited)} of the time the program waited for a processor"
    ]
