"""What a summary has below its operators: modules, memory and findings; bounded in length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.devices import device_title
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.finding import Findings
from opscope.analysis.memory.over_time import memory_over_time
from opscope.analysis.module_times import module_times
from opscope.analysis.quantity_text import bytes_text, time_text
from opscope.analysis.torch_listing.listing import TorchListing
from opscope.cli.finding_formats import as_markdown, place_text, saving_text, state_of
from opscope.printable import in_markdown, printable
from opscope.trace.trace import Trace

MOST_MODULES = 5
MOST_FINDINGS = 3
_MOST_CATEGORIES = 4


@dataclass(frozen=True)
class Sections:
    """Values by keys that stay the same; times in nanoseconds, sizes in bytes.

    Attributes:
        modules: those with most time of their own, forward and backward; empty if none recorded.
        memory: one entry per device; empty if none recorded.
        findings: all.
    """

    modules: list[dict[str, Any]]
    memory: list[dict[str, Any]]
    findings: Findings

    def as_dict(self) -> dict[str, Any]:
        """What the JSON of a summary holds."""
        found = self.findings.as_dict()
        found["findings"] = found["findings"][:MOST_FINDINGS]
        return {"modules": self.modules, "memory": self.memory, "findings": found["findings"]}


def find_sections(trace: Trace) -> Sections:
    """Gather them."""
    listing = TorchListing(trace)
    return Sections(
        modules=_modules(trace, listing),
        memory=_memory(trace),
        findings=find_findings(trace, listing=listing),
    )


def _modules(trace: Trace, listing: TorchListing) -> list[dict[str, Any]]:
    times = module_times(trace, listing)
    order = np.argsort(-(times.self_ns + times.backward_ns), kind="stable")[:MOST_MODULES]
    return [
        {
            "module": ".".join(times.paths[row]),
            "calls": int(times.calls[row]),
            "self_ns": int(times.self_ns[row]),
            "backward_ns": int(times.backward_ns[row]),
            "total_ns": int(times.total_ns[row]),
            "device_ns": int(times.device_ns[row]),
        }
        for row in order.tolist()
    ]


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


def section_texts(sections: Sections) -> list[RenderableType]:
    """The sections for a terminal, an empty line before each; nothing of those that are empty."""
    shown: list[RenderableType] = []
    if sections.modules:
        shown += ["", _module_table(sections.modules)]
    if sections.memory:
        shown += ["", *(Text(_memory_line(device)) for device in sections.memory)]
    if len(sections.findings):
        shown += [
            "",
            _finding_table(sections.findings),
            Text(state_of(sections.findings, MOST_FINDINGS), "dim"),
        ]
    return shown


def _module_table(modules: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Module", overflow="ellipsis", no_wrap=True)
    for heading in ("Calls", "Self", "Backward", "Total"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in modules:
        times = (time_text(row[key]) for key in ("self_ns", "backward_ns", "total_ns"))
        table.add_row(Text(printable(row["module"])), f"{row['calls']:,}", *times)
    return table


def _memory_line(device: dict[str, Any]) -> str:
    parts = [f"{name} {bytes_text(size)}" for name, size in device["categories"].items()]
    held = f": {', '.join(parts)}" if parts else ""
    return f"Memory of {device['device']}: {bytes_text(device['peak_bytes'])} at its peak{held}"


def _finding_table(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("What to change", overflow="fold")
    table.add_column("Saving", no_wrap=True)
    table.add_column("Where", overflow="fold")
    for finding in findings.found[:MOST_FINDINGS]:
        where = _last_part(place_text(finding.places[0])) if finding.places else ""
        saving = saving_text(finding).removeprefix("saves ")
        table.add_row(Text(printable(finding.title)), Text(saving), Text(printable(where)))
    return table


def _last_part(place: str) -> str:
    """``train.py:12 in main``: a path from the root would fill a narrow terminal."""
    return place.rsplit("/", 1)[-1] if place.startswith("/") else place


def section_markdown(sections: Sections) -> str:
    """The sections in Markdown, each with a heading; nothing of those that are empty."""
    lines: list[str] = []
    if sections.modules:
        lines += ["", "## Modules", "", "| Module | Calls | Self | Backward | Total |"]
        lines += ["| --- | --: | --: | --: | --: |"]
        lines += [
            f"| {in_markdown(row['module'])} | {row['calls']:,} | {time_text(row['self_ns'])} "
            f"| {time_text(row['backward_ns'])} | {time_text(row['total_ns'])} |"
            for row in sections.modules
        ]
    if sections.memory:
        lines += ["", "## Memory", "", *(f"- {_memory_line(device)}" for device in sections.memory)]
    if len(sections.findings):
        lines += ["", "## Findings", "", as_markdown(sections.findings, "###", MOST_FINDINGS)]
    return "\n".join(lines) + ("\n" if lines else "")
