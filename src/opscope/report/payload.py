"""All the data of a page, as described in ``web/src/contract.ts``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from opscope.analysis.account.find import find_account
from opscope.base.progress import tell
from opscope.columns.trace_data import TraceData
from opscope.export.window import window_of
from opscope.findings.find import find_findings
from opscope.findings.finding import Findings
from opscope.findings.verdict import Verdict, weighed
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.slow_ranks import SlowRanks
from opscope.jobs.verdict import job_verdict
from opscope.report.device_section import device_section
from opscope.report.finding_section import finding_section
from opscope.report.memory_section import memory_section
from opscope.report.packing import Packer
from opscope.report.rank_section import rank_section
from opscope.report.run_section import period_section, run_section
from opscope.report.shown_text import shown
from opscope.report.span_section import add_spans
from opscope.report.step_section import step_section
from opscope.report.table_sections import module_section, operator_sections, source_section
from opscope.storage.partition import Partition
from opscope.timeline.listing import TorchListing
from opscope.timeline.period import Which, period_of

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
    process: tuple[Partition, TraceData] | None = None,
) -> tuple[dict[str, Any], str]:
    """The report as JSON can hold it, and its packed columns.

    The timeline and memory are those of the whole recording; tables, findings and what pictures
    show first are those of a period of it. Of a job, ``trace`` is of the processes ``on_timeline``,
    and ``ranks``, who is slow and what they did together, of all; tables, findings and steps are of
    one ``process``: added up over several they would say nothing of any.
    """
    own = trace if process is None else process[1]
    metadata, period, packer = trace.metadata, period_of(own, which), Packer()
    window, part = window_of(trace, metadata), period.trace
    listing = TorchListing(own)
    part_listing = listing if part is own else TorchListing(part)
    tell(1, _PARTS)
    spans_section, spans = add_spans(trace, window.start_ns, packer)
    tell(2, _PARTS)
    operators, by_shape = operator_sections(part)
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
        "sources": lambda: source_section(part, part_listing),
        "steps": lambda: step_section(own, listing, window.start_ns),
        "memory": lambda: memory_section(trace, spans),
        "devices": lambda: device_section(own, which),
        "findings": lambda: finding_section(found, spans if process is None else None),
        "verdict": lambda: list(map(shown, _verdict(own, which, found, ranks, process))),
    }
    for done, (name, make) in enumerate(sections.items(), start=5):
        report[name] = make()
        tell(done, _PARTS)
    report["ranks"] = None if ranks is None else rank_section(*ranks, on_timeline, packer)
    columns = packer.finish()
    report["columns"] = packer.directory
    return report, columns


def _verdict(
    trace: TraceData,
    which: Which | str,
    findings: Findings,
    ranks: tuple[SlowRanks, JobCollectives] | None,
    process: tuple[Partition, TraceData] | None,
) -> list[str]:
    if not trace.has_times:
        return []

    def of_one() -> Verdict:
        return weighed(trace, which, findings, find_account(trace, which))

    name = "all" if process is None else str(process[0])
    return (of_one() if ranks is None else job_verdict(ranks[0], of_one, name)).lines()


def _program_name(metadata: dict[str, Any]) -> str:
    return os.path.basename(str(metadata.get("program") or "")) or "opscope report"
