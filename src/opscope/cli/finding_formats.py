"""Findings as text for people, and as Markdown or JSON for everything else."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from opscope.analysis.findings.finding import Finding, Findings
from opscope.analysis.findings.pattern import SAMPLES_LOST, Needs
from opscope.analysis.findings.sites import Place
from opscope.analysis.program_lines import tells_line
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli import rows
from opscope.printable import in_markdown, in_markdown_code, printable

LineTexts: TypeAlias = Mapping[tuple[str, int], str]
"""What lines of the program say, by file and number; see ``analysis.program_lines``."""

CSV_COLUMNS = (
    *("id", "title", "severity", "time_ns", "saved_ns", "saved_share"),
    *("file", "line", "function"),
)
COLOURS = {"high": "bold red", "medium": "yellow", "low": "dim"}
"""Of severities."""


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
    function = f" in {place.function}" if place.function else ""
    return line_here(place) + function


def line_here(place: Place) -> str:
    """``train.py:12``: files below the current folder relative to it."""
    return below_here(str(place))


def below_here(file: str) -> str:
    """A file below the current folder relative to it."""
    return file.removeprefix(os.getcwd() + os.sep)


def said_at(place: Place, texts: LineTexts) -> str:
    """What the line of a place says; empty if it is not known."""
    known = tells_line(place.function, place.line)
    return texts.get((place.file, place.line), "") if known else ""


def finding_lines(finding: Finding, texts: LineTexts) -> list[RenderableType]:
    """Title, saving and first place of a finding."""
    lines: list[RenderableType] = [indented(f"{finding.title}: {saving_text(finding)}", 2)]
    for place in finding.places[:1]:
        lines.append(indented(f"at {place_text(place)}", 4))
        if said := said_at(place, texts):
            lines.append(indented(said, 8))
    return lines


def as_text(findings: Findings, texts: LineTexts, limit: int = -1) -> RenderableType:
    """Paragraph by paragraph, at most ``limit`` findings (-1: all)."""
    chosen = findings.found if limit < 0 else findings.foremost(limit)
    parts: list[RenderableType] = []
    for finding in chosen:
        mark = (f"{finding.severity:<6} ", COLOURS[finding.severity])
        parts += [
            Text.assemble(mark, (printable(finding.title), "bold"), f"  {saving_text(finding)}"),
            *_paragraphs(finding, texts),
            Text(""),
        ]
    parts.append(Text(state_of(findings, len(chosen))))
    parts += [
        Text(printable(note)) for note in (*findings.notes_with(line_here), findings.looked_at)
    ]
    return Group(*parts)


def _paragraphs(finding: Finding, texts: LineTexts) -> list[RenderableType]:
    lines = [indented(finding.explanation, 7)]
    if finding.advice:
        lines.append(indented(f"What to do: {finding.advice}", 7))
    for place in finding.places:
        took = f"{_times(place)}, {time_text(place.time_ns)}"
        lines.append(indented(f"at {place_text(place)}{_module(place)} ({took})", 7))
        if said := said_at(place, texts):
            lines.append(indented(said, 11))
    if finding.place_note:
        lines.append(indented(finding.place_note, 7))
    return [*lines, indented(f"Estimate: {finding.saved_by}. [{finding.id}]", 7)]


def indented(text: str, by: int) -> RenderableType:
    """A paragraph that begins so far to the right."""
    return Padding(Text(printable(text)), (0, 0, 0, by), expand=False)


def state_of(findings: Findings, shown: int | None = None) -> str:
    """How many patterns there are, were looked for in vain, and could not be looked for."""
    found = len(findings)
    parts = [
        f"{found} of {found + len(findings.absent)} patterns found"
        if found
        else f"nothing found, of {len(findings.absent)} patterns that were looked for"
    ]
    if shown == 0 and found:
        parts = [f"nothing found that saves 0.1%, of {found + len(findings.absent)} patterns"]
    if shown is not None and shown < found:
        what = "more" if shown else "that would save less"
        parts.append(f"{found - shown} {what}: opscope findings shows all")
    needs = Counter(one.needs for one in findings.unchecked)
    about_devices = needs.pop(Needs.DEVICE.value, 0)
    if about_devices:
        about_devices += needs.pop(Needs.KERNELS.value, 0)
        parts.append(f"{about_devices} about GPUs not looked for, because none was used")
    if lost := needs.pop(SAMPLES_LOST, 0):
        why = SAMPLES_LOST[0].lower() + SAMPLES_LOST[1:].rstrip(".")
        parts.append(f"{lost} not looked for, because {why}")
    if needs:
        said = needs.most_common(1)[0][0]
        why = "it was not recorded" if said.startswith("Record") else "nothing here shows it"
        parts.append(f"{needs.total()} not looked for, because {why}. {said}")
    return "; ".join(parts)


def as_markdown(findings: Findings, texts: LineTexts, heading: str = "##", limit: int = -1) -> str:
    """A section per finding, at most ``limit`` (-1: all)."""
    lines: list[str] = []
    chosen = findings.found if limit < 0 else findings.foremost(limit)
    for finding in chosen:
        title, explanation = in_markdown(finding.title), in_markdown(finding.explanation)
        lines += [f"{heading} {title}: {saving_text(finding)}", "", explanation, ""]
        if finding.advice:
            lines += [f"**What to do:** {finding.advice}", ""]
        for place in finding.places:
            said = said_at(place, texts)
            lines.append(
                f"- {in_markdown_code(place_text(place))}{in_markdown(_module(place))}, "
                f"{_times(place)}, {time_text(place.time_ns)}"
                + (f": {in_markdown_code(said)}" if said else "")
            )
        lines += [finding.place_note] if finding.place_note else []
        lines += ["", f"Estimate: {finding.saved_by}. ({finding.id})", ""]
    notes = [line for note in findings.notes_with(line_here) for line in ("", in_markdown(note))]
    return "\n".join([*lines, state_of(findings, len(chosen)), *notes]) + "\n"


def _times(place: Place) -> str:
    return "once" if place.occurrences == 1 else f"{place.occurrences:,} times"


def _module(place: Place) -> str:
    return f", {place.module}" if place.file and place.module else ""


def as_json(findings: Findings, texts: LineTexts) -> str:
    """One JSON object; see :func:`json_content`."""
    return json.dumps(json_content(findings, texts), indent=2) + "\n"


def json_content(findings: Findings, texts: LineTexts) -> dict[str, Any]:
    """See ``Findings.as_dict``; places with the text of their lines."""
    content: dict[str, Any] = findings.as_dict()
    for finding, plain in zip(findings, content["findings"], strict=True):
        for place, one in zip(finding.places, plain["places"], strict=True):
            one["text"] = said_at(place, texts)
    return content


def as_csv(findings: Findings) -> str:
    """A row per finding; see :func:`csv_rows`."""
    return rows.as_csv(CSV_COLUMNS, csv_rows(findings))


def csv_rows(findings: Findings) -> list[list[object]]:
    """A row per finding, with the place where most of its time lies."""
    found = []
    for one in findings:
        first = one.places[0] if one.places else None
        where = ["", "", ""] if first is None else [first.file, first.line, first.function]
        saved = [one.saved_ns, one.saved_share]
        found.append([one.id, one.title, one.severity, one.time_ns, *saved, *where])
    return found
