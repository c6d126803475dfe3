"""Findings as text for people, and as Markdown or JSON for everything else."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from opscope.analysis.findings.finding import Finding, Findings
from opscope.analysis.findings.sites import Place
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli import rows
from opscope.printable import in_markdown, in_markdown_code, printable

_CSV_COLUMNS = (
    *("id", "title", "severity", "time_ns", "saved_ns", "saved_share"),
    *("file", "line", "function"),
)
_COLOURS = {"high": "bold red", "medium": "yellow", "low": "dim"}


def saving_text(finding: Finding) -> str:
    """What the fix would save, in a few words."""
    if finding.saved_ns is None or finding.saved_share is None:
        return "saving unknown"
    about = "saves" if finding.measured else "saves about"
    return f"{about} {time_text(finding.saved_ns)} ({share_text(finding.saved_share)})"


def place_text(place: Place) -> str:
    """``train.py:12 in main``: files below the current folder relative to it."""
    if not place.file:
        return place.module
    where = str(place)
    here = os.getcwd() + os.sep
    function = f" in {place.function}" if place.function else ""
    return where.removeprefix(here) + function


def as_text(findings: Findings, limit: int = -1) -> RenderableType:
    """Paragraph by paragraph, at most ``limit`` findings (-1: all)."""
    chosen = findings.found if limit < 0 else findings.found[:limit]
    parts: list[RenderableType] = []
    for finding in chosen:
        mark = (f"{finding.severity:<6} ", _COLOURS[finding.severity])
        parts += [
            Text.assemble(mark, (printable(finding.title), "bold"), f"  {saving_text(finding)}"),
            *(
                Padding(Text(printable(line)), (0, 0, 0, 7), expand=False)
                for line in _paragraphs(finding)
            ),
            Text(""),
        ]
    parts.append(Text(state_of(findings, len(chosen))))
    return Group(*parts)


def _paragraphs(finding: Finding) -> list[str]:
    lines = [finding.explanation]
    if finding.advice:
        lines.append(f"What to do: {finding.advice}")
    lines += [
        f"at {place_text(place)}{_module(place)} ({_times(place)}, {time_text(place.time_ns)})"
        for place in finding.places
    ]
    if finding.place_note:
        lines.append(finding.place_note)
    return [*lines, f"Estimate: {finding.saved_by}. [{finding.id}]"]


def state_of(findings: Findings, shown: int | None = None) -> str:
    """How many patterns there are, were looked for in vain, and could not be looked for."""
    found = len(findings)
    parts = [
        f"{found} of {found + len(findings.absent)} patterns found"
        if found
        else f"nothing found, of {len(findings.absent)} patterns that were looked for"
    ]
    if shown is not None and shown < found:
        parts.append(f"{found - shown} more: opscope findings shows all")
    needs = Counter(one.needs for one in findings.unchecked).most_common(1)
    if needs:
        parts.append(
            f"{len(findings.unchecked)} not looked for, because it was not recorded. {needs[0][0]}"
        )
    return "; ".join(parts)


def as_markdown(findings: Findings, heading: str = "##", limit: int = -1) -> str:
    """A section per finding, at most ``limit`` (-1: all)."""
    lines: list[str] = []
    chosen = findings.found if limit < 0 else findings.found[:limit]
    for finding in chosen:
        title, explanation = in_markdown(finding.title), in_markdown(finding.explanation)
        lines += [f"{heading} {title}: {saving_text(finding)}", "", explanation, ""]
        if finding.advice:
            lines += [f"**What to do:** {finding.advice}", ""]
        lines += [
            f"- {in_markdown_code(place_text(place))}{in_markdown(_module(place))}, "
            f"{_times(place)}, {time_text(place.time_ns)}"
            for place in finding.places
        ]
        lines += [finding.place_note] if finding.place_note else []
        lines += ["", f"Estimate: {finding.saved_by}. ({finding.id})", ""]
    return "\n".join([*lines, state_of(findings, len(chosen))]) + "\n"


def _times(place: Place) -> str:
    return "once" if place.occurrences == 1 else f"{place.occurrences:,} times"


def _module(place: Place) -> str:
    return f", {place.module}" if place.file and place.module else ""


def as_json(findings: Findings) -> str:
    """One JSON object: see ``Findings.as_dict``."""
    content: dict[str, Any] = findings.as_dict()
    return json.dumps(content, indent=2) + "\n"


def as_csv(findings: Findings) -> str:
    """A row per finding, with the place where most of its time lies."""
    found = []
    for one in findings:
        first = one.places[0] if one.places else None
        where = ["", "", ""] if first is None else [first.file, first.line, first.function]
        saved = [one.saved_ns, one.saved_share]
        found.append([one.id, one.title, one.severity, one.time_ns, *saved, *where])
    return rows.as_csv(_CSV_COLUMNS, found)
