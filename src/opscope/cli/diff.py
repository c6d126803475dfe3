"""Compare two versions of a program: time, calls, memory, and where work moved.

Calls, bytes and shapes are compared exactly. Times are compared over typical steps after start-up,
and a difference counts only if it exceeds the differences between recordings of one version. To
detect small changes, use --run: it stops and continues the two programs in turns of 0.1 s, so that
other programs on the machine disturb both alike, and compares them round by round. In JSON, times
are nanoseconds of a step.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path

from opscope.analysis.diff.compare import Despite, compare
from opscope.analysis.diff.gate import Decision, Judgement, Outcome, judge, read_gate
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.api.diff import open_sides
from opscope.cli.parser import Parser, add_row_limit, example, one_of, whole_number
from opscope.cli.views.console import Messages, Output, console_for
from opscope.cli.views.results import Section, as_markdown, as_text
from opscope.errors import UsageError
from opscope.export.output_file import write_file
from opscope.readers.version_comparison import Rounds, decide, record_rounds
from opscope.report.diff_page import diff_html
from opscope.report.diff_tables import MOST_ROWS, closing, headline, tables

FAILED, NOT_JUDGED = 3, 4
"""Exit codes of a gate, beside those of errors."""


class DiffFormat(str, Enum):
    """Values of ``--format``."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "recordings",
        nargs="+",
        metavar="OLD NEW",
        help="Traces: folders, or Chrome traces of any profiler. With --to, all of these are of "
        "the old version. With --run two scripts, and after -- their arguments.",
    )
    parser.add_argument(
        "--run",
        metavar="N",
        type=whole_number(1),
        help="Record two scripts at once, which take turns, N times (into opscope-rounds), and "
        "accept or reject the new one: by --gate, else by whether it is faster.",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="With --run: record one script after the other, because they write the same files, "
        "use the same port, or need all memory. Detects only larger changes.",
    )
    parser.add_argument(
        "--to", nargs="+", type=Path, metavar="NEW", help="Traces of the new version."
    )
    parser.add_argument(
        "--gate",
        metavar="CONDITIONS",
        help=f"Conditions to check, as in step<=+2%%,memory<=+1%%,count==. Exit code {FAILED} if "
        f"one fails, {NOT_JUDGED} if one cannot be decided.",
    )
    parser.add_argument(
        "--despite",
        nargs="+",
        **one_of(Despite),
        help="Compare times even if versions of torch or Python, or recording options, differ.",
    )
    parser.add_argument(
        "--format",
        default=DiffFormat.TABLE,
        **one_of(DiffFormat),
        help="Output format. [default: table]",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="Write to a file instead. [default: diff.html for html, else standard output]",
    )
    add_row_limit(parser, MOST_ROWS, "Rows of each table")
    parser.epilog = example(
        'opscope diff old-1 old-2 --to new-1 new-2 --gate "places<=+2%,count=="',
        "opscope diff --run 5 old.py new.py -- --epochs 1",
    )


def main(args: Namespace) -> int:
    """Print the differences; returns the exit code of the gate or of the decision."""
    conditions = read_gate(args.gate) if args.gate is not None else []
    messages = Messages()
    rounds: Rounds | None = None
    if args.run is not None:
        rounds = _record_rounds(args, messages)
    with messages.progress("comparing"):
        sides = _open_given(args) if rounds is None else rounds.sides()
        diff = compare(*sides, args.despite or ())
        if rounds is not None:  # the command itself chooses what to record
            diff = replace(diff, not_recorded=())
    judgements = judge(diff, conditions)
    decision = None if rounds is None else decide(diff, rounds, judgements)
    if args.format is DiffFormat.HTML:
        file = args.output or Path("diff.html")
        write_file(file, [diff_html(diff, *sides, judgements).encode("utf-8")])
        messages.say(f"wrote {file}; open it in a browser")
    else:
        _show(diff, judgements, args.format, args.output, args.row_limit)
    code = _gate_result(judgements, messages)
    if rounds is None or decision is None:
        return code
    messages.say(rounds.outputs[1])
    text, code = _DECISIONS[decision]
    has_advice = decision is Decision.UNDECIDED and diff.step is not None
    messages.say(f"{text}; use more rounds" if has_advice else text)
    return code


_DECISIONS = {
    Decision.ACCEPT: ("accept the new version", 0),
    Decision.REJECT: ("reject the new version", FAILED),
    Decision.UNDECIDED: ("undecided", NOT_JUDGED),
}


def _record_rounds(args: Namespace, messages: Messages) -> Rounds:
    if args.to or len(args.recordings) < 2:
        raise UsageError(
            "--run takes two scripts: opscope diff --run 5 OLD.py NEW.py -- ARGUMENTS."
        )
    old, new, *arguments = args.recordings
    return record_rounds(old, new, arguments, args.run, messages.say, args.apart)


def _open_given(args: Namespace) -> tuple[Side, Side]:
    old, new = list(map(Path, args.recordings)), args.to
    if not new:
        if len(old) != 2:
            raise UsageError(
                f"diff needs an old and a new trace, but got {len(old)}. Write opscope diff "
                "OLD NEW, or opscope diff OLD... --to NEW..."
            )
        old, new = old[:1], old[1:]
    return open_sides(old, new, ("the old version", "the new version"))


def _show(
    diff: Diff,
    judgements: list[Judgement],
    format: DiffFormat,
    output: Path | None,
    row_limit: int,
) -> None:
    if format is DiffFormat.TABLE and output is None:
        console = console_for(sys.stdout)
        return console.print(as_text(diff_sections(diff, row_limit), console.width))
    if format is DiffFormat.JSON:
        text = json.dumps(_as_json(diff, judgements), indent=2, allow_nan=False) + "\n"
    else:
        text = as_markdown(diff_sections(diff, row_limit, judgements))
    if output is None:
        Output().show(text)
    else:
        write_file(output, [text.encode("utf-8")])


def _as_json(diff: Diff, judgements: list[Judgement]) -> dict[str, object]:
    gate = [
        {"condition": one.condition.text, "outcome": one.outcome.value, "why": one.why}
        for one in judgements
    ]
    return {**diff.as_dict(), "gate": gate}


def _gate_result(judgements: list[Judgement], messages: Messages) -> int:
    """Print the outcomes of the gate; returns its exit code."""
    for one in judgements:
        say = messages.say if one.outcome is Outcome.PASSED else messages.fail
        say(f"{one.condition.text} {one.outcome.value}: {one.why}")
    outcomes = {one.outcome for one in judgements}
    if Outcome.FAILED in outcomes:
        return FAILED
    return NOT_JUDGED if Outcome.NOT_JUDGED in outcomes else 0


_MARKS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.NOT_JUDGED: "❔"}


def diff_sections(
    diff: Diff, most_rows: int, judgements: Sequence[Judgement] = ()
) -> list[Section]:
    """Sections of a comparison: outcomes of the gate, compared recordings, changes."""
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
