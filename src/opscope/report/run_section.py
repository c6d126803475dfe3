"""What was recorded, where, how, and what is missing from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.columns.trace_data import TraceData
from opscope.export.window import Window
from opscope.report.shown_text import shown
from opscope.storage.job import missing_ranks
from opscope.timeline.period import Period, Which

_MACHINE = (
    ("host_name", "host"),
    ("process_id", "process"),
    ("python_version", "Python"),
    ("torch_version", "torch"),
    ("imported_from", "imported from"),
)


def run_section(trace: TraceData, metadata: dict[str, Any], window: Window) -> dict[str, Any]:
    """The header of the page."""
    events = len(trace.events)
    counts = {
        name: len(trace.table(name))
        for name in ("events", "threads", "gpu", "allocations", "tensors", "python_calls")
    }
    user = metadata.get("user")
    return {
        "program": shown(str(metadata.get("program") or "")),
        "startedNs": str(window.start_ns),  # as text: JavaScript would round it
        "duration": window.end_ns - window.start_ns,
        "machine": _machine(trace, metadata),
        "options": _options(metadata.get("options")),
        "user": [[shown(str(k)), shown(str(v))] for k, v in user.items()]
        if isinstance(user, dict)
        else [],
        "counts": counts,
        "ledger": [
            {"source": shown(source), "what": shown(what), "value": value}
            for source, what, value in _ledger(trace)
        ],
        "dropped": trace.ledger.lost(),
        "unfinished": int(trace.events["unfinished"].sum()) if events else 0,
        "costNs": _cost(trace, events),
    }


def period_section(period: Period, origin_ns: int, of: str | None = None) -> dict[str, Any]:
    """What the page speaks of, and the start-up that it leaves out."""
    start_up, start_ns = period.start_up, period.start_ns
    is_left_out = period.which is Which.STEADY and start_up.is_any
    return {
        "about": f"{period}, of {of}" if of else str(period),
        "from": max(start_ns - origin_ns, 0),
        "to": max(start_ns + period.wall_ns - origin_ns, 1),
        "leftOut": str(start_up) if is_left_out else "",
    }


def _ledger(trace: TraceData) -> Iterator[tuple[str, str, float]]:
    for source, counts in trace.ledger.items():
        for what, value in counts.items():
            yield source, what, value


def _machine(trace: TraceData, metadata: dict[str, Any]) -> list[list[str]]:
    known = [[label, shown(str(metadata[key]))] for key, label in _MACHINE if metadata.get(key)]
    missing = missing_ranks(trace.ledger)
    return known + [["job", shown(missing)]] * bool(missing)


def _options(options: Any) -> list[list[Any]]:
    if not isinstance(options, dict):
        return []
    return [
        [
            shown(str(name).replace("_", " ")),
            value if isinstance(value, bool) else shown(str(value)),
        ]
        for name, value in options.items()
    ]


def _cost(trace: TraceData, events: int) -> float | None:
    """What recording the spans cost in all, by the calibration; None where there was none."""
    per_event = cost_of_an_event_ns(trace)
    return None if per_event is None else per_event * events
