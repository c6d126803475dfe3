"""The data of a page; ``web/src/contract.ts`` describes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.analysis.account.find import find_account
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.analysis.sites import Place
from opscope.analysis.torch_listing.rows import list_rows
from opscope.base.progress import report_progress
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
    """Findings in order of their saving, and the checks that could not run.

    ``spans``: spans of the timeline, if these are of the same trace.
    """
    return {
        "found": [_finding_json(finding, spans) for finding in findings],
        "absent": len(findings.absent),
        "notes": [shown(note) for note in findings.notes],
        "lookedAt": shown(findings.looked_at),
        "unchecked": [
            {"title": shown(one.title), "needs": shown(one.needs)} for one in findings.unchecked
        ],
    }


def _finding_json(finding: Finding, spans: Spans | None) -> dict[str, Any]:
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
        "places": [_place_json(place) for place in finding.places],
        "placeNote": finding.place_note,
        "link": finding.link if finding.link.startswith("https://") else "",
    }


def _place_json(place: Place) -> dict[str, Any]:
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
        "startedNs": str(window.start_ns),  # text, because JavaScript would round a number
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
    """The page's period, and the start-up that is not in it."""
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
    rows = [[label, shown(str(metadata[key]))] for key, label in _MACHINE if metadata.get(key)]
    missing = missing_ranks(trace.ledger)
    return rows + [["job", shown(missing)]] * bool(missing)


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
"""Maximum number of steps shown; these are the first ones."""


def step_section(trace: TraceData, listing: TorchListing, start_ns: int) -> dict[str, Any] | None:
    """Duration, phases, causes and top operators of every step; None without steps."""
    steps, what = program_steps(trace)
    # With a schedule (``what`` is empty), every event has its step.
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
    """Time of the main thread in each step by cause, without causes that no step has."""
    table = find_account(trace, Which.ALL).table()[:count]
    used = np.flatnonzero(table.any(axis=0)).tolist()
    return {
        "causes": [Cause(cause).title for cause in used],
        "causeMeanings": [Cause(cause).meaning for cause in used],
        "causeTimes": table[:, used].tolist(),
    }


CONTRACT_VERSION = 1

_PARTS = 12
"""Parts of the work, for progress; all take about as long, and the last is packing and writing."""


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
    """The report for JSON, and its packed columns.

    Timeline and memory cover the whole recording, tables and findings a period. For a job,
    ``trace`` has the processes ``on_timeline``, and ``ranks`` covers all; tables, findings and
    steps are those of one ``process``, because sums over several would describe none of them.
    ``merged``: number of spans that each event represents, if the timeline is reduced.
    """
    source = trace if process is None else process[1]
    metadata, period, packer = trace.metadata, period_of(source, which), Packer()
    window, part = window_of(trace, metadata), period.trace
    listing = TorchListing(source)
    part_listing = listing if part is source else TorchListing(part)
    report_progress(1, _PARTS)
    spans_section, spans = add_spans(trace, window.start_ns, packer)
    if merged is not None:
        add_merged(packer, merged, spans.position)
    report_progress(2, _PARTS)
    own_listing, flops = OwnListing(part), recorded_flops(part)
    rows = list_rows(own_listing, flops)
    operators = operator_section(own_listing, rows, flops)
    detailed = detailed_period_of(source, which)
    if detailed.in_detail:  # the following tables need data that only this part has
        part = detailed.trace
        part_listing, own_listing = TorchListing(part), OwnListing(part)
        flops = recorded_flops(part)
        rows = list_rows(own_listing, flops)
    by_shape = operator_section(own_listing, rows, flops, by_shape=True)
    report_progress(4, _PARTS)
    finding_list = findings
    if finding_list is None:
        finding_list = find_findings(source, listing=part_listing, which=which)
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
        "steps": lambda: step_section(source, listing, window.start_ns),
        "memory": lambda: (
            memory_section(trace, spans)
            if merged is None
            else memory_section(source, Spans.without(source, window.start_ns))
        ),
        "devices": lambda: _devices(source, which),
        "findings": lambda: finding_section(finding_list, spans if process is None else None),
        "verdict": lambda: list(map(shown, _verdict(source, which, finding_list, ranks, process))),
    }
    for done, (name, make) in enumerate(sections.items(), start=5):
        report[name] = make()
        report_progress(done, _PARTS)
    report["ranks"] = report["differences"] = None
    if ranks is not None:
        from opscope.report.rank_section import rank_section

        report["ranks"] = rank_section(*ranks, on_timeline, packer)
    columns = packer.finish()
    report["columns"] = packer.directory
    return report, columns


def _devices(trace: TraceData, which: Which | str) -> dict[str, Any] | None:
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

    def own_verdict() -> Verdict:
        return weighed(trace, which, findings, find_account(trace, which))

    if ranks is None:
        return own_verdict().lines()
    name = "all" if process is None else str(process[0])
    return job_verdict(ranks[0].found, own_verdict, name).lines()


def _program_name(metadata: dict[str, Any]) -> str:
    return os.path.basename(str(metadata.get("program") or "")) or "opscope report"
