"""What has to be said beside every number that is made of a recording.

Every view speaks of a :class:`opscope.analysis.period.Period`, and a period says these with its
name: so what a layer knows stands in the line that numbers are printed under. Whether there are
times at all is asked there, too.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from opscope.errors import UsageError
from opscope.trace.device_rules import check_device_rules
from opscope.trace.ledger import LOSS
from opscope.trace.ledger_rows import OVERLAP_NS, OVERLAPS
from opscope.trace.trace import Trace

NO_TIMES = "no times were recorded"

_NOTICED_SHARE = 0.01
"""Overlaps of less of the time change no answer."""

_DOUBTS: WeakKeyDictionary[Trace, tuple[str, ...]] = WeakKeyDictionary()


def require_times(trace: Trace) -> None:
    """Refuse a question about time where nothing says how long anything took.

    Raises:
        UsageError: that is so.
    """
    if not trace.has_times:
        raise UsageError(
            f"Here {NO_TIMES}, only what ran and in which order, so where time went is not known. "
            "`opscope summary` counts calls, shapes, FLOPs and bytes."
        )


def doubts_of(trace: Trace) -> tuple[str, ...]:
    """What makes numbers of a recording doubtful, each as a part of a sentence; mostly empty."""
    found = _DOUBTS.get(trace)
    if found is None:
        found = _DOUBTS[trace] = tuple(_doubts_of(trace))
    return found


def _doubts_of(trace: Trace) -> list[str]:
    if not trace.has_times:
        return [NO_TIMES]
    ledger = trace.ledger
    found = []
    if len(trace.table("gpu")):
        if not len(trace.events):
            found.append("only the work of devices was recorded")
        if broken := check_device_rules(trace).broken:
            found.append(f"device work breaks rules: {', '.join(broken)}")
    found += _overlaps(trace, ledger.get("import", {}))
    losses = [
        f"{value:,.0f} {what.removeprefix(f'{LOSS}: ')}" for _, what, value in ledger.losses()
    ]
    return [*found, *([f"LOST: {', '.join(losses)}"] if losses else [])]


def _overlaps(trace: Trace, imported: dict[str, float]) -> list[str]:
    overlap_ns = imported.get(OVERLAP_NS, 0.0)
    if not overlap_ns or overlap_ns < _NOTICED_SHARE * float(trace.events["duration_ns"].max()):
        return []
    return [f"{imported.get(OVERLAPS, 0.0):,.0f} {OVERLAPS}"]
