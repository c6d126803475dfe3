"""Findings about several processes, for people: what is the same in several is said once."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from opscope.analysis.findings.finding import Findings
from opscope.analysis.quantity_text import share_text
from opscope.cli.finding_formats import (
    COLOURS,
    LineTexts,
    indented,
    place_text,
    said_at,
    saving_text,
    state_of,
)
from opscope.cli.several_processes import said_once
from opscope.job.shared_findings import SharedFinding, shared_findings
from opscope.printable import in_markdown, in_markdown_code, printable
from opscope.trace.partition import Partition, parts_text

Found = Mapping[Partition, Findings]


def as_text(found: Found, texts: LineTexts) -> RenderableType:
    """A paragraph for each that is not the same, those that weigh most anywhere first."""
    parts: list[RenderableType] = []
    for shared in shared_findings(found):
        _, finding = shared.most
        mark = (f"{finding.severity:<6} ", COLOURS[finding.severity])
        title = (printable(finding.title), "bold")
        parts.append(Text.assemble(mark, title, f"  in {parts_text(shared.processes, len(found))}"))
        lines = [_saving(shared), finding.explanation]
        lines += [f"What to do: {finding.advice}"] if finding.advice else []
        parts += [indented(line, 7) for line in lines]
        for place in finding.places[:1]:
            parts.append(indented(f"at {place_text(place)}", 7))
            if said := said_at(place, texts):
                parts.append(indented(said, 11))
        parts.append(Text(""))
    return Group(*parts, *(Text(line) for line in _ends(found)))


def as_markdown(found: Found, texts: LineTexts) -> str:
    """A section for each that is not the same."""
    lines = []
    for shared in shared_findings(found):
        _, finding = shared.most
        where = parts_text(shared.processes, len(found))
        lines += [f"## {in_markdown(finding.title)}, in {where}", "", in_markdown(_saving(shared))]
        lines += ["", in_markdown(finding.explanation), ""]
        lines += [f"**What to do:** {finding.advice}", ""] if finding.advice else []
        for place in finding.places[:1]:
            said = said_at(place, texts)
            at = f"- {in_markdown_code(place_text(place))}"
            lines += [at + (f": {in_markdown_code(said)}" if said else ""), ""]
    return "\n".join([*lines, *map(in_markdown, _ends(found))]) + "\n"


def _saving(shared: SharedFinding) -> str:
    process, finding = shared.most
    text = f"{saving_text(finding)} in {process}"
    middle = shared.middle_share
    if len(shared.processes) > 1 and middle is not None:
        text += f", {share_text(middle)} in the middle one of {len(shared.processes)}"
    return text


def _ends(found: Found) -> list[str]:
    """What was looked for in each; the same words of several are said once."""
    return said_once({part: [state_of(one)] for part, one in found.items()}, len(found))
