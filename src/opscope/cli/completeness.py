"""What a trace says about its own completeness and cost, in one line."""

from __future__ import annotations

from opscope.trace.trace import Trace


def describe_completeness(trace: Trace) -> str:
    """How much was recorded, what was dropped and why, and what recording cost."""
    ledger = trace.ledger
    if not ledger:
        return (
            f"{len(trace.events):,} events; whoever recorded them left no account of what was "
            "dropped"
        )
    parts = [f"{len(trace.events):,} events", _dropped(ledger), *_clock(ledger)]
    cost_ns = ledger.get("recorder", {}).get("cost_ns: span")
    if cost_ns:
        parts.append(f"recording cost about {cost_ns:.0f} ns each")
    return ", ".join(parts)


def _dropped(ledger: dict[str, dict[str, float]]) -> str:
    reasons = [
        f"{source}: {value:,.0f} DROPPED ({what.removeprefix('dropped: ')})"
        for source, counts in ledger.items()
        for what, value in counts.items()
        if what.startswith("dropped") and value
    ]
    return ", ".join(reasons) or "none dropped"


def _clock(ledger: dict[str, dict[str, float]]) -> list[str]:
    return [f"the CLOCK {what}: {value:,.0f}" for what, value in ledger.get("clock", {}).items()]
