"""Findings and the verdict as sections, JSON and CSV."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opscope.analysis.sites import Place
from opscope.analysis.top_operators import has_work
from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.cli.views.results import Result, Section, as_text
from opscope.columns.location import LineTexts, line_texts
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.finding import Finding, Findings
from opscope.findings.pattern import SAMPLES_LOST, Needs
from opscope.findings.verdict import Verdict, find_verdict
from opscope.storage.partition import Partition, parts_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from opscope.findings.job_verdict import SharedFinding

CSV_COLUMNS = (
    *("id", "title", "severity", "time_ns", "saved_ns", "saved_share"),
    *("file", "line", "function"),
)
_MOST_FINDINGS = 3
COLOURS = {"high": "bold red", "medium": "yellow", "low": "dim"}


def saving_text(finding: Finding) -> str:
    """Saving of the fix, in a few words."""
    if finding.saved_ns is None or finding.saved_share is None:
        size = finding.saved_bytes
        return "saving unknown" if size is None else f"saves about {bytes_text(size)} of memory"
    about = "saves" if finding.measured else "saves about"
    return f"{about} {time_text(finding.saved_ns)} ({share_text(finding.saved_share)})"


def place_text(place: Place) -> str:
    """``train.py:12 in main``; relative to the current folder if possible."""
    if not place.file:
        return place.module
    function = f" in {place.function}" if place.function else ""
    return local_line(place) + function


def local_line(place: Place) -> str:
    """``train.py:12``; relative to the current folder if possible."""
    return relative_file(str(place))


def relative_file(file: str) -> str:
    """Path relative to the current folder, if the file is below that."""
    return file.removeprefix(os.getcwd() + os.sep)


def foremost_section(findings: Findings, texts: LineTexts, most: int) -> list[Section]:
    """The findings with the largest savings, in a few lines; empty without such."""
    notes = []
    for finding in findings.foremost(most):
        notes.append(f"  {finding.title}: {saving_text(finding)}")
        for place in finding.places[:1]:
            notes.append(f"    at {place_text(place)}")
            notes += [f"        {source_line}"] if (source_line := place.source_text(texts)) else []
    return [Section(title="What to change", notes=notes)] if notes else []


def finding_sections(
    findings: Findings, texts: LineTexts, limit: int = -1, explain: bool = False
) -> list[Section]:
    """A section for each finding, at most ``limit`` (-1: all), and one about the checks.

    ``explain``: add how each saving is estimated.
    """
    shown = findings.found if limit < 0 else findings.foremost(limit)
    notes = [state_of(findings, len(shown)), *findings.notes_with(local_line), findings.looked_at]
    return [
        *(
            finding_section(one, f": {saving_text(one)}", list(_paragraphs(one, texts, explain)))
            for one in shown
        ),
        Section(notes=notes),
    ]


def finding_section(finding: Finding, after_title: str, paragraphs: Sequence[str]) -> Section:
    """One finding as a section."""
    lines = [finding.explanation]
    lines += [f"What to do: {finding.advice}"] if finding.advice else []
    return Section(
        title=f"{finding.severity:<6} {finding.title}{after_title}",
        style=COLOURS[finding.severity],
        notes=[f"  {line}" for line in (*lines, *paragraphs)],
    )


def _paragraphs(finding: Finding, texts: LineTexts, explain: bool) -> Iterator[str]:
    for place in finding.places:
        cost = f"{_count_text(place)}, {time_text(place.time_ns)}"
        yield f"at {place_text(place)}{_module(place)} ({cost})"
        if source_line := place.source_text(texts):
            yield f"    {source_line}"
    if finding.place_note:
        yield finding.place_note
    yield f"Estimate: {finding.saved_by}. [{finding.id}]" if explain else f"[{finding.id}]"


def state_of(findings: Findings, shown: int | None = None) -> str:
    """Sentence about the numbers of checks with and without findings, and of skipped ones."""
    found = len(findings)
    parts = [
        f"{found} of {found + len(findings.absent)} checks have findings"
        if found
        else f"no known problem ({len(findings.absent)} checks ran)"
    ]
    if shown == 0 and found:
        parts = [f"no finding saves 0.1% or more ({found + len(findings.absent)} checks ran)"]
    if shown is not None and shown < found:
        what = "more" if shown else "with smaller savings"
        parts.append(f"{found - shown} {what}: opscope why --all")
    needs = Counter(one.needs for one in findings.unchecked)
    about_devices = needs.pop(Needs.DEVICE.value, 0)
    if about_devices:
        about_devices += needs.pop(Needs.KERNELS.value, 0)
        parts.append(f"{about_devices} for GPUs skipped, because no GPU was used")
    if lost := needs.pop(SAMPLES_LOST, 0):
        why = SAMPLES_LOST[0].lower() + SAMPLES_LOST[1:].rstrip(".")
        parts.append(f"{lost} checks skipped, because {why}")
    if needs:
        advice = needs.most_common(1)[0][0]
        why = (
            "their data was not recorded"
            if advice.startswith("Record")
            else "this period has no data for them"
        )
        parts.append(f"{needs.total()} checks skipped, because {why}. {advice}")
    return "; ".join(parts)


def _count_text(place: Place) -> str:
    return "once" if place.occurrences == 1 else f"{place.occurrences:,} times"


def _module(place: Place) -> str:
    return f", {place.module}" if place.file and place.module else ""


def json_content(findings: Findings, texts: LineTexts) -> dict[str, Any]:
    """``Findings.as_dict`` with the source text of places."""
    content: dict[str, Any] = findings.as_dict()
    for finding, plain in zip(findings, content["findings"], strict=True):
        for place, one in zip(finding.places, plain["places"], strict=True):
            one["text"] = place.source_text(texts)
    return content


def csv_rows(findings: Findings) -> list[list[object]]:
    """A row per finding, with its place that takes most time."""
    rows = []
    for finding in findings:
        place = finding.places[0] if finding.places else None
        location = ["", "", ""] if place is None else [place.file, place.line, place.function]
        about = [finding.id, finding.title, finding.severity, finding.time_ns]
        rows.append([*about, finding.saved_ns, finding.saved_share, *location])
    return rows


def headline(trace: TraceData) -> list[str]:
    """Lines of the verdict; none for a trace without operators."""
    if not has_work(trace) or not trace.has_times:
        return []
    return verdict_lines(find_verdict(trace))


def verdict_lines(verdict: Verdict) -> list[str]:
    """Lines of the verdict, with files relative to the current folder."""
    return verdict.lines(place_text)


def verdict_section(verdict: Verdict) -> Section:
    """The verdict as the first section."""
    return Section(notes=verdict_lines(verdict))


def top_findings(trace: TraceData, is_wrapped: bool) -> RenderableType:
    """The first few findings, in full."""
    sections = finding_sections(find_findings(trace), line_texts(trace), _MOST_FINDINGS)
    return as_text(sections, 0, is_wrapped=is_wrapped)  # without tables, the width has no effect


def findings_result(findings: Findings, texts: LineTexts, explain: bool) -> Result:
    """Result with all findings of one process."""
    return Result(
        sections=finding_sections(findings, texts, explain=explain),
        content=json_content(findings, texts),
        columns=CSV_COLUMNS,
        rows=csv_rows(findings),
    )


def findings_of_all(results: Mapping[Partition, tuple[Findings, LineTexts]]) -> list[Section]:
    """Findings of several processes, equal ones merged, sorted by saving."""
    from opscope.findings.job_verdict import shared_findings

    texts = {place: text for _, one in results.values() for place, text in one.items()}
    by_process = {part: findings for part, (findings, _) in results.items()}
    sections = []
    for shared in shared_findings(by_process):
        _, finding = shared.most
        paragraphs = [_saving_text(shared)]
        for place in finding.places[:1]:
            paragraphs.append(f"at {place_text(place)}")
            paragraphs += (
                [f"    {source_line}"] if (source_line := place.source_text(texts)) else []
            )
        ranks_text = f", in {parts_text(shared.processes, len(results))}"
        sections.append(finding_section(finding, ranks_text, paragraphs))
    return sections


def _saving_text(shared: SharedFinding) -> str:
    process, finding = shared.most
    text = f"{saving_text(finding)} in {process}"
    median = shared.middle_share
    if len(shared.processes) > 1 and median is not None:
        text += f", {share_text(median)} in the median of {len(shared.processes)}"
    return text
