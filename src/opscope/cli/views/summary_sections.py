"""Sections of a summary below the operators: modules, lines, memory, findings."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from opscope.analysis.account.find import find_account
from opscope.analysis.memory.counters import where_recorded
from opscope.analysis.memory.over_time import memory_over_time
from opscope.analysis.module_times import module_times
from opscope.analysis.source_lines import program_lines
from opscope.base.quantity_text import bytes_text, time_text
from opscope.cli.views.findings import (
    foremost_section,
    local_line,
    relative_file,
    state_of,
)
from opscope.cli.views.results import Section
from opscope.columns.labels import device_title
from opscope.columns.location import LineTexts, line_texts
from opscope.columns.metadata_kinds import SAMPLE
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.finding import Findings
from opscope.findings.verdict import Verdict, weighed
from opscope.timeline.listing import TorchListing
from opscope.timeline.module_attribution import module_text
from opscope.timeline.period import Period, detailed_period_of

MOST_MODULES = 5
MOST_LINES = 5
MOST_FINDINGS = 3
_MOST_CATEGORIES = 4


@dataclass(frozen=True)
class Sections:
    """Content of the sections, by JSON keys; times in nanoseconds, sizes in bytes."""

    modules: list[dict[str, Any]]  # modules with most self time; empty if not recorded
    lines: list[dict[str, Any]]  # source lines with most time; empty if calls were not recorded
    memory: list[dict[str, Any]]  # one entry per device; empty if not recorded
    findings: Findings | None  # all findings; None without times
    texts: LineTexts  # source lines of the program
    verdict: Verdict | None = None  # None without times
    stretch: str = ""  # what these sections without memory cover, if not all of the period

    def as_dict(self) -> dict[str, Any]:
        """Content of the JSON."""
        findings = [] if self.findings is None else self.findings.as_dict()["findings"]
        return {
            "modules": self.modules,
            "lines": self.lines,
            "memory": self.memory,
            "findings": findings[:MOST_FINDINGS],
            "verdict": None if self.verdict is None else self.verdict.as_dict(),
        }


def find_sections(trace: TraceData, period: Period, has_memory: bool = True) -> Sections:
    """Make the sections, of the period or its steps in detail.

    Memory is that of the whole recording. The other sections of a long steady state cover a
    typical stretch.
    """
    memory = _memory(trace) if has_memory else []
    if not period.trace.has_times:
        return Sections([], [], memory, None, line_texts(trace))
    period = detailed_period_of(trace, period.which)
    listing = TorchListing(period.trace)
    findings = find_findings(trace, listing=listing, which=period.which)
    account = find_account(trace, period.which)
    return Sections(
        modules=_modules(period.trace, listing),
        lines=_lines(period.trace),
        memory=memory,
        findings=findings,
        texts=line_texts(trace),
        verdict=weighed(trace, period.which, findings, account),
        stretch=str(period) if SAMPLE in period.trace.metadata else "",
    )


def _modules(trace: TraceData, listing: TorchListing) -> list[dict[str, Any]]:
    times = module_times(trace, listing)
    order = np.argsort(-(times.self_ns + times.backward_ns), kind="stable")[:MOST_MODULES]
    return [
        {
            "module": ".".join(times.paths[row]),
            "class": times.classes[row],
            "calls": int(times.calls[row]),
            "self_ns": int(times.self_ns[row]),
            "backward_ns": int(times.backward_ns[row]),
            "total_ns": int(times.total_ns[row]),
            "device_ns": int(times.device_ns[row]),
        }
        for row in order.tolist()
    ]


def _lines(trace: TraceData) -> list[dict[str, Any]]:
    return [asdict(line) for line in program_lines(trace)[:MOST_LINES]]


def _memory(trace: TraceData) -> list[dict[str, Any]]:
    devices = []
    for device in memory_over_time(where_recorded(trace), categories=False):
        parts = device.by_phase
        at_peak = parts.size_bytes[device.at_peak]
        largest = np.argsort(-at_peak, kind="stable")[:_MOST_CATEGORIES]
        devices.append(
            {
                "device": device_title(device.device),
                "peak_bytes": device.peak.in_use,
                "peak_ns": device.peak.time_ns,
                "categories": {
                    parts.names[c]: int(at_peak[c]) for c in largest.tolist() if at_peak[c]
                },
            }
        )
    return devices


def shown_sections(sections: Sections) -> list[Section]:
    """Sections for a terminal, without empty ones."""
    result = []
    if sections.modules:
        times = ("self_ns", "backward_ns", "total_ns")
        rows = [
            [
                module_text(one["module"], one["class"]),
                f"{one['calls']:,}",
                *(time_text(one[key]) for key in times),
            ]
            for one in sections.modules
        ]
        result.append(Section(columns=("Module", "Calls", "Self", "Backward", "Total"), rows=rows))
    if sections.lines:
        rows = [[_place(one), *_line_numbers(one), one["text"]] for one in sections.lines]
        result.append(Section(columns=("Line of your program", "Calls", "Time", ""), rows=rows))
    if sections.memory:
        result.append(Section(notes=list(map(_memory_line, sections.memory))))
    if sections.findings:
        (changes,) = foremost_section(sections.findings, sections.texts, MOST_FINDINGS) or [
            Section(title="What to change")
        ]
        state = state_of(sections.findings, len(sections.findings.foremost(MOST_FINDINGS)))
        notes = [*changes.notes, state, *sections.findings.notes_with(local_line)]
        result.append(replace(changes, notes=notes))
    return result


def _line_numbers(line: dict[str, Any]) -> tuple[str, str]:
    waiting_text = f" + {time_text(line['waiting_ns'])} waiting" if line["waiting_ns"] else ""
    return f"{line['calls']:,}", time_text(line["time_ns"]) + waiting_text


def _place(line: dict[str, Any]) -> str:
    """``train.py:12 in main``; without folders if the file is not in the current one."""
    file = relative_file(os.path.normpath(line["file"]))
    name = os.path.basename(file) if os.path.isabs(file) else file
    return f"{name}:{line['line']} in {line['function']}"


def _memory_line(device: dict[str, Any]) -> str:
    parts = [f"{name} {bytes_text(size)}" for name, size in device["categories"].items()]
    beginning = f"Memory of {device['device']}: {bytes_text(device['peak_bytes'])} at its peak"
    return f"{beginning}: {', '.join(parts)}" if parts else beginning
