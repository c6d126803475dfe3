"""What opscope adds below torch's table: how much the numbers cover, and what was lost."""

from __future__ import annotations

from opscope.analysis.device_account import describe_devices
from opscope.analysis.flops import FlopCounts
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.printable import printable
from opscope.columns.trace_data import TraceData
from opscope.timeline.doubts import doubts_text

_DROPPED = "dropped: "


def footer(trace: TraceData, flops: FlopCounts | None) -> str:
    """Lines to print below a table, each ending in a newline; empty if there is nothing to say.

    ``flops``: where operations were counted, to say which share of operator time they explain.
    """
    lines = [] if flops is None else [_flop_line(flops)]
    lines += [f"Devices: {line}" for line in describe_devices(trace)]
    lines += [line for line in (doubts_text(trace, losses=False),) if line]
    lines += _ledger_lines(trace.ledger)
    if cost_ns := cost_of_an_event_ns(trace):
        lines.append(f"Cost of recording: about {cost_ns:.0f} ns per event")
    return "".join(f"{printable(line)}\n" for line in lines)


def _flop_line(flops: FlopCounts) -> str:
    if not flops.covered_ns:
        return "FLOPs: no operator with a formula and recorded shapes"
    return f"FLOPs: formulas cover {flops.coverage:.1%} of operator time"


def _ledger_lines(ledger: dict[str, dict[str, float]]) -> list[str]:
    lines = []
    events = ledger.get("events", {})
    if "recorded" in events:
        lines.append(f"Events recorded: {events['recorded']:,.0f}; {_dropped(ledger)}")
    elif ledger and _losses(ledger):
        lines.append(_dropped(ledger).capitalize())
    return lines


def _dropped(ledger: dict[str, dict[str, float]]) -> str:
    losses = _losses(ledger)
    return f"dropped: {', '.join(losses)}" if losses else "none dropped"


def _losses(ledger: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"{value:,.0f} {source} ({what.removeprefix(_DROPPED)})"
        for source, counts in ledger.items()
        for what, value in counts.items()
        if what.startswith(_DROPPED) and value
    ]
