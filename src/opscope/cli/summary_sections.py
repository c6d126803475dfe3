"""What a summary has below its operators: modules, lines, memory, findings; bounded in length."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.devices import device_title
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.finding import Findings
from opscope.analysis.memory.over_time import memory_over_time
from opscope.analysis.module_attribution import module_text
from opscope.analysis.module_times import module_times
from opscope.analysis.period import Period
from opscope.analysis.program_lines import line_texts, program_lines
from opscope.analysis.quantity_text import bytes_text, time_text
from opscope.analysis.torch_listing.listing import TorchListing
from opscope.cli.finding_formats import (
    LineTexts,
    as_markdown,
    below_here,
    finding_lines,
    line_here,
    state_of,
)
from opscope.cli.narrow import in_lines, numbers_table, width_of
from opscope.printable import in_markdown, printable
from opscope.trace.trace import Trace

MOST_MODULES = 5
MOST_LINES = 5
MOST_FINDINGS = 3
_MOST_CATEGORIES = 4


@dataclass(frozen=True)
class Sections:
    """Values by keys that stay the same; times in nanoseconds, sizes in bytes.

    Attributes:
        modules: those with most time of their own, forward and backward; empty if none recorded.
        lines: those of the program at which most time went by; empty if no calls were recorded.
        memory: one entry per device; empty if none recorded.
        findings: all; None where no times were recorded.
        texts: what lines of the program say.
    """

    modules: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    memory: list[dict[str, Any]]
    findings: Findings | None
    texts: LineTexts

    def as_dict(self) -> dict[str, Any]:
        """What the JSON of a summary holds."""
        found = [] if self.findings is None else self.findings.as_dict()["findings"]
        return {
            "modules": self.modules,
            "lines": self.lines,
            "memory": self.memory,
            "findings": found[:MOST_FINDINGS],
        }


def find_sections(trace: Trace, period: Period) -> Sections:
    """Gather them: of the period, but memory of the whole recording, whose peak may be anywhere."""
    if not period.trace.has_times:
        return Sections([], [], _memory(trace), None, line_texts(trace))
    listing = TorchListing(period.trace)
    return Sections(
        modules=_modules(period.trace, listing),
        lines=_lines(period.trace),
        memory=_memory(trace),
        findings=find_findings(trace, listing=listing, which=period.which),
        texts=line_texts(trace),
    )


def _modules(trace: Trace, listing: TorchListing) -> list[dict[str, Any]]:
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


def _lines(trace: Trace) -> list[dict[str, Any]]:
    return [asdict(line) for line in program_lines(trace)[:MOST_LINES]]


def _memory(trace: Trace) -> list[dict[str, Any]]:
    found = []
    for device in memory_over_time(trace, categories=False):
        parts = device.by_phase
        at_peak = parts.size_bytes[device.at_peak]
        largest = np.argsort(-at_peak, kind="stable")[:_MOST_CATEGORIES]
        found.append(
            {
                "device": device_title(device.device),
                "peak_bytes": device.peak.in_use,
                "peak_ns": device.peak.time_ns,
                "categories": {
                    parts.names[c]: int(at_peak[c]) for c in largest.tolist() if at_peak[c]
                },
            }
        )
    return found


def section_texts(sections: Sections, width: int) -> list[RenderableType]:
    """The sections for a terminal, an empty line before each; nothing of those that are empty."""
    shown: list[RenderableType] = []
    if sections.modules:
        shown += ["", _module_table(sections.modules, width)]
    if sections.lines:
        shown += ["", _line_table(sections.lines, width)]
    if sections.memory:
        shown += ["", *(Text(_memory_line(device, width)) for device in sections.memory)]
    if sections.findings:
        foremost = sections.findings.foremost(MOST_FINDINGS)
        shown += ["", Text("What to change", "bold")]
        for finding in foremost:
            shown += finding_lines(finding, sections.texts)
        shown.append(Text(state_of(sections.findings, len(foremost)), "dim"))
        shown += [Text(printable(note), "dim") for note in sections.findings.notes_with(line_here)]
    return shown


def _module_table(modules: list[dict[str, Any]], width: int) -> RenderableType:
    times = (("Self", "self_ns"), ("Backward", "backward_ns"), ("Total", "total_ns"))
    numbers = [("Calls", [f"{row['calls']:,}" for row in modules])]
    numbers += [(title, [time_text(row[key]) for row in modules]) for title, key in times]
    names = [printable(module_text(row["module"], row["class"])) for row in modules]
    return numbers_table("Module", names, numbers, width)


def _line_table(lines: list[dict[str, Any]], width: int) -> RenderableType:
    """The program's lines with what they say, cut where the terminal ends."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(
        "Line of your program", overflow="ellipsis", no_wrap=True, max_width=width // 2
    )
    table.add_column("Calls", justify="right", no_wrap=True)
    table.add_column("Time", justify="right", no_wrap=True)
    places = [printable(_place(line)) for line in lines]
    numbers = [_line_numbers(line) for line in lines]
    columns = [("Line of your program", [place[: width // 2] for place in places])]
    columns += [("Calls", [calls for calls, _ in numbers]), ("Time", [time for _, time in numbers])]
    table.add_column(
        "", overflow="ellipsis", no_wrap=True, max_width=max(width - width_of(columns), 1)
    )
    for place, (calls, time), line in zip(places, numbers, lines, strict=True):
        table.add_row(Text(place), calls, time, Text(printable(line["text"])))
    return table


def _line_numbers(line: dict[str, Any]) -> tuple[str, str]:
    waited = f" + {time_text(line['waiting_ns'])} waiting" if line["waiting_ns"] else ""
    return f"{line['calls']:,}", time_text(line["time_ns"]) + waited


def _place(line: dict[str, Any]) -> str:
    """``train.py:12 in main``: a path from the root would fill a narrow terminal."""
    file = below_here(os.path.normpath(line["file"]))
    name = os.path.basename(file) if os.path.isabs(file) else file
    return f"{name}:{line['line']} in {line['function']}"


def _memory_line(device: dict[str, Any], width: int = 1 << 20) -> str:
    parts = [f"{name} {bytes_text(size)}" for name, size in device["categories"].items()]
    beginning = f"Memory of {device['device']}: {bytes_text(device['peak_bytes'])} at its peak"
    return in_lines(f"{beginning}:" if parts else beginning, parts, width)


def section_markdown(sections: Sections) -> str:
    """The sections in Markdown, each with a heading; nothing of those that are empty."""
    lines: list[str] = []
    if sections.modules:
        lines += ["", "## Modules", "", "| Module | Calls | Self | Backward | Total |"]
        lines += ["| --- | --: | --: | --: | --: |"]
        lines += [
            f"| {in_markdown(module_text(row['module'], row['class']))} | {row['calls']:,} "
            f"| {time_text(row['self_ns'])} | {time_text(row['backward_ns'])} "
            f"| {time_text(row['total_ns'])} |"
            for row in sections.modules
        ]
    if sections.lines:
        lines += ["", "## Lines of your program", "", "| Line | Calls | Time | |"]
        lines += ["| --- | --: | --: | --- |"]
        lines += [
            f"| {in_markdown(_place(row))} | {' | '.join(_line_numbers(row))} "
            f"| {in_markdown(row['text'])} |"
            for row in sections.lines
        ]
    if sections.memory:
        lines += ["", "## Memory", "", *(f"- {_memory_line(device)}" for device in sections.memory)]
    if sections.findings:
        lines += [
            "",
            "## Findings",
            "",
            as_markdown(sections.findings, sections.texts, "###", MOST_FINDINGS),
        ]
    return "\n".join(lines) + ("\n" if lines else "")
