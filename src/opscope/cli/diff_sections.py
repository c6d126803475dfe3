"""A comparison as sections, for a terminal and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from opscope.analysis.diff.gate import Judgement, Outcome
from opscope.analysis.diff.result import Diff
from opscope.cli.results import Section
from opscope.report.diff_tables import closing, headline, tables

_MARKS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.NOT_JUDGED: "❔"}


def diff_sections(
    diff: Diff, most_rows: int, judgements: Sequence[Judgement] = ()
) -> list[Section]:
    """What became of a gate, where there is one; what was compared; what changed."""
    gate = [
        (one.condition.text, f"{_MARKS[one.outcome]} {one.outcome.value}", one.why)
        for one in judgements
    ]
    return [
        *([Section(columns=("Condition", "Outcome", "Why"), rows=gate)] if gate else []),
        Section(notes=headline(diff)),
        *(
            Section(
                title=table.title,
                columns=table.headings,
                rows=table.rows,
                notes=[f"{table.left_out} more: --row-limit -1 shows all"]
                if table.left_out
                else [],
            )
            for table in tables(diff, most_rows)
        ),
        *([Section(above=closing(diff))] if closing(diff) else []),
    ]
