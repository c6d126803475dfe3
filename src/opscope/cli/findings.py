"""``opscope findings``: why a program is slow, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from opscope._native import keep_freed_memory
from opscope.base.quantity_text import share_text
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.shown.finding_sections import (
    CSV_COLUMNS,
    csv_rows,
    finding_section,
    finding_sections,
    json_content,
    place_text,
    saving_text,
    state_of,
)
from opscope.cli.shown.results import FormatOption, Result, RowsFormat
from opscope.cli.shown.side_by_side import OfAll, answer
from opscope.cli.trace_argument import (
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    said_once,
)
from opscope.columns.location import LineTexts, line_texts
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.finding import Findings
from opscope.jobs.shared_findings import SharedFinding, shared_findings
from opscope.storage.partition import Partition, parts_text
from opscope.timeline.period import Which


def findings(
    trace: TraceArgument = None,
    name: Annotated[
        str | None,
        Option(metavar="REGEX", help="Also report all events whose names match."),
    ] = None,
    benchmark: Annotated[
        bool,
        Option(help="Measure savings with torch on this machine, where possible."),
    ] = False,
    period: PeriodOption = Which.STEADY,
    format: FormatOption = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show why a program is slow: what was found, where, and what a fix would save.

    Patterns that need something this trace lacks are named, with what to record. Estimates are
    derived from the trace and say how; in JSON, times are nanoseconds and shares 0 to 1.

    Of a folder with several processes and none chosen, it is about all: what is the same in
    several is said once.
    """
    if not benchmark:  # what is timed has the memory that other programs have
        keep_freed_memory()

    def find(one: TraceData) -> tuple[Findings, LineTexts]:
        return find_findings(one, benchmark, name, which=period), line_texts(one)

    answer(
        choose_trace(trace, rank, process),
        PartOption(range, steps),
        "measuring" if benchmark else "looking for patterns in",
        find,
        lambda found: _result(*found),
        _of_all,
    ).show(format)


def _result(found: Findings, texts: LineTexts) -> Result:
    return Result(
        sections=finding_sections(found, texts),
        content=json_content(found, texts),
        columns=CSV_COLUMNS,
        rows=csv_rows(found),
    )


def _of_all(found: Mapping[Partition, tuple[Findings, LineTexts]]) -> OfAll:
    """What is the same in several is said once, those that weigh most anywhere first."""
    texts = {place: text for _, one in found.values() for place, text in one.items()}
    by_process = {part: findings for part, (findings, _) in found.items()}
    sections = []
    for shared in shared_findings(by_process):
        _, finding = shared.most
        paragraphs = [_saving(shared)]
        for place in finding.places[:1]:
            paragraphs.append(f"at {place_text(place)}")
            paragraphs += [f"    {said}"] if (said := place.said(texts)) else []
        where = f", in {parts_text(shared.processes, len(found))}"
        sections.append(finding_section(finding, where, paragraphs))
    states = {part: [state_of(one)] for part, one in by_process.items()}
    return OfAll(sections=sections, lines=said_once(states, len(found)))


def _saving(shared: SharedFinding) -> str:
    process, finding = shared.most
    text = f"{saving_text(finding)} in {process}"
    middle = shared.middle_share
    if len(shared.processes) > 1 and middle is not None:
        text += f", {share_text(middle)} in the middle one of {len(shared.processes)}"
    return text
