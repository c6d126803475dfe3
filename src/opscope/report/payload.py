"""All the data of a page, as described in ``web/src/contract.ts``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.analysis.account.find import find_account
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.analysis.sites import Place
from opscope.base.progress import tell
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.finding import Finding, Findings
from opscope.findings.job_verdict import job_verdict
from opscope.findings.verdict import Verdict, weighed
from opscope.report.memory_section import memory_section
from opscope.report.packing import Packer, shown
from opscope.report.span_section import Spans, add_merged, add_spans
from opscope.report.table_sections import (
    module_section,
    operator_section,
    recorded_flops,
    shape_section,
    source_section,
)
from opscope.storage.job import missing_ranks
from opscope.storage.partition import Partition
from opscope.timeline.arrays import Rows
from opscope.timeline.listing import OwnListing, TorchListing
from opscope.timeline.period import Period, Which, detailed_period_of, period_of
from opscope.timeline.phases import PHASE_NAMES
from opscope.timeline.step_times import step_times
from opscope.timeline.steps import program_steps
from opscope.timeline.window import Window, window_of

if TYPE_CHECKING:
    from opscope.jobs.collectives import JobCollectives
    from opscope.jobs.slow_ranks import SlowRanks

_MOST_SPANS = 1000


def finding_section(findings: Findings, spans: Spans | None) -> dict[str, Any]:
    """Findings in order of their saving, the checks made, and the checks that could not run.

    ``spans``: those that the timeline shows, if they are of the same trace.
    """
    return {
        "found": [_finding(finding, spans) for finding in findings],
        "absent": len(findings.absent),
        "notes": [shown(note) for note in findings.notes],
        "lookedAt": shown(findings.looked_at),
        "unchecked": [
            {"title": shown(one.title), "needs": shown(one.needs)} for one in findings.unchecked
        ],
    }


def _finding(finding: Finding, spans: Spans | None) -> dict[str, Any]:
    return {
        "id": finding.id,
        "title": shown(finding.title),
        "explanation": shown(finding.explanation),
        "advice": shown(finding.advice),
        "severity": finding.severity,
        "time": finding.time_ns,
        "timeShare": finding.time_share,
        "saved": finding.saved_ns,
        "savedShare": finding.saved_share,
        "savedBy": shown(finding.saved_by),
        "measured": finding.measured,
        "count": finding.occurrences,
        "spans": []
        if spans is None
        else [int(spans.position[event]) for event in finding.events[:_MOST_SPANS]],
        "places": [_place(place) for place in finding.places],
        "placeNote": finding.place_note,
        "link": finding.link if finding.link.startswith("https://") else "",
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "text": shown(str(place)),
        "function": shown(place.function),
        "module": shown(place.module if place.file else ""),
        "count": place.occurrences,
        "time": place.time_ns,
    }


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
    """The period that the page is about, and the start-up that it leaves out."""
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
    """Total cost of recording the spans, from the calibration; None without one."""
    per_event = cost_of_an_event_ns(trace)
    return None if per_event is None else per_event * events


MOST_STEPS = 1000
"""Steps shown; of more, the first ones."""


def step_section(trace: TraceData, listing: TorchListing, start_ns: int) -> dict[str, Any] | None:
    """Duration, phases, causes and top operators of every step; None without steps."""
    steps, what = program_steps(trace)
    # Those of a schedule are recorded with every event.
    times = step_times(trace, listing, steps=steps if what else None)
    count = min(len(times.steps), MOST_STEPS)
    if not count:
        return None
    return {
        "what": what,
        "number": times.steps.number[:count].tolist(),
        "start": (times.steps.start_ns[:count] - start_ns).tolist(),
        "duration": times.duration_ns[:count].tolist(),
        "busy": times.busy_ns[:count].tolist(),
        "deviceBusy": times.device_ns[:count].tolist(),
        "events": times.events[:count].tolist(),
        "phases": list(PHASE_NAMES),
        "phaseTimes": times.phase_ns[:count].tolist(),
        **_causes(trace, count),
        "labels": [shown(label) for label in times.labels],
        "labelTimes": times.label_ns[:count].tolist(),
        "allSteps": len(times.steps),
    }


def _causes(trace: TraceData, count: int) -> dict[str, Any]:
    """Time of the main thread in each step by cause; causes that no step has are left out."""
    table = find_account(trace, Which.ALL).table()[:count]
    used = np.flatnonzero(table.any(axis=0)).tolist()
    return {
        "causes": [Cause(cause).title for cause in used],
        "causeMeanings": [Cause(cause).meaning for cause in used],
        "causeTimes": table[:, used].tolist(),
    }


CONTRACT_VERSION = 1

_PARTS = 12
"""Of the work, about as long as one another; the last is packing and writing."""


def gather(
    trace: TraceData,
    title: str,
    findings: Findings | None = None,
    which: Which | str = Which.STEADY,
    ranks: tuple[SlowRanks, JobCollectives] | None = None,
    on_timeline: Collection[Partition] = (),
    process: tuple[Partition | str, TraceData] | None = None,
    merged: Rows | None = None,
) -> tuple[dict[str, Any], str]:
    """The report as JSON can hold it, and its packed columns.

    The timeline and memory are those of the whole recording; tables, findings and what pictures
    show first are those of a period of it. Of a job, ``trace`` is of the processes ``on_timeline``,
    and ``ranks``, who is slow and what they did together, of all; tables, findings and steps are of
    one ``process``: added up over several they would say nothing of any. ``merged``: of each event
    how many it stands for, where the timeline shows a part of what was recorded.
    """
    own = trace if process is None else process[1]
    metadata, period, packer = trace.metadata, period_of(own, which), Packer()
    window, part = window_of(trace, metadata), period.trace
    listing = TorchListing(own)
    part_listing = listing if part is own else TorchListing(part)
    tell(1, _PARTS)
    spans_section, spans = add_spans(trace, window.start_ns, packer)
    if merged is not None:
        add_merged(packer, merged, spans.position)
    tell(2, _PARTS)
    own_listing, flops = OwnListing(part), recorded_flops(part)
    operators = operator_section(part, own_listing, flops)
    detailed = detailed_period_of(own, which)
    if detailed.in_detail:  # tables of what only that part has
        part = detailed.trace
        part_listing, own_listing = TorchListing(part), OwnListing(part)
        flops = recorded_flops(part)
    by_shape = shape_section(part, own_listing, flops)
    tell(4, _PARTS)
    found = findings
    if found is None:
        found = find_findings(own, listing=part_listing, which=which)
    report: dict[str, Any] = {
        "version": CONTRACT_VERSION,
        "title": shown(title or _program_name(metadata)),
        "run": run_section(trace, metadata, window),
        "period": period_section(period, window.start_ns, process and str(process[0])),
        "spans": spans_section,
        "operators": operators,
        "operatorsByShape": by_shape,
    }
    sections: dict[str, Callable[[], Any]] = {
        "modules": lambda: module_section(part, part_listing),
        "sources": lambda: source_section(part, part_listing, window.start_ns),
        "steps": lambda: step_section(own, listing, window.start_ns),
        "memory": lambda: (
            memory_section(trace, spans)
            if merged is None
            else memory_section(own, Spans.without(own, window.start_ns))
        ),
        "devices": lambda: _devices(own, which),
        "findings": lambda: finding_section(found, spans if process is None else None),
        "verdict": lambda: list(map(shown, _verdict(own, which, found, ranks, process))),
    }
    for done, (name, make) in enumerate(sections.items(), start=5):
        report[name] = make()
        tell(done, _PARTS)
    report["ranks"] = report["differences"] = None
    if ranks is not None:
        from opscope.report.rank_section import rank_section

        report["ranks"] = rank_section(*ranks, on_timeline, packer)
    columns = packer.finish()
    report["columns"] = packer.directory
    return report, columns


def _devices(trace: TraceData, which: Which | str) -> dict[str, Any] | None:
    """None where no device did anything."""
    if not len(trace.table("gpu")):
        return None
    from opscope.report.device_section import device_section

    return device_section(trace, which)


def _verdict(
    trace: TraceData,
    which: Which | str,
    findings: Findings,
    ranks: tuple[SlowRanks, JobCollectives] | None,
    process: tuple[Partition | str, TraceData] | None,
) -> list[str]:
    if not trace.has_times:
        return []

    def of_one() -> Verdict:
        return weighed(trace, which, findings, find_account(trace, which))

    if ranks is None:
        return of_one().lines()
    name = "all" if process is None else str(process[0])
    return job_verdict(ranks[0].found, of_one, name).lines()


def _program_name(metadata: dict[str, Any]) -> str:
    return os.path.basename(str(metadata.get("program") or "")) or "opscope report"
