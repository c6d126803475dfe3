"""``opscope job``: ask something of all processes of a job together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from opscope.cli.parameters import Argument, Option
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import FormatOption, Result, RowsFormat, Section
from opscope.cli.trace_argument import RankOption, choose_trace, nothing_beside
from opscope.cli.whole_job import of_readable, say_what_is_missing
from opscope.jobs.questions.answer import JobAnswer
from opscope.jobs.questions.engines import EngineName
from opscope.jobs.questions.questions import JobQuestion
from opscope.storage.partition import listed

SHOWN = 40
"""Rows on a terminal, unless told otherwise."""

_AMOUNTS = ("_ns", "bytes", "calls", "dropped")
"""How columns end whose large numbers are read in groups of three digits."""


def job(
    question: Annotated[
        JobQuestion,
        Argument(
            metavar="QUESTION",
            help="ranks, steps, operators, modules, lines, spread, causes, memory or losses.",
        ),
    ] = JobQuestion.RANKS,
    *,
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="With the recordings of several processes.")
    ],
    engine: Annotated[
        EngineName, Option(help="What answers; the answers are the same.")
    ] = EngineName.DUCKDB,
    master: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Of Spark, as in spark://host:7077.",
            default="$OPSCOPE_SPARK_MASTER, else this machine",
        ),
    ] = None,
    format: FormatOption = RowsFormat.TABLE,
    limit: Annotated[
        int | None,
        Option(metavar="N", help="Rows at most.", default="40 in a table, else all", minimum=1),
    ] = None,
    rank: RankOption = None,
) -> None:
    """Ask something of all processes of a job together.

    ranks: what a step of each takes without waiting for others, and in how many it is the slowest.
    steps: which rank takes longest for each step. operators, modules, lines: own time over all
    ranks, and who has most and least of it. spread: who has more of what than the middle one.
    causes: what the time of each went to. memory: how much each had in use at its peak. losses:
    what was dropped of recordings, or only a newer opscope knows.

    The answers are made of what was added up of each process when it was saved, so that a thousand
    of them take seconds; what lacks that is added up first, and kept. Times are nanoseconds, sizes
    bytes.
    """
    chosen = choose_trace(folder, rank)
    if not chosen.is_of_several:
        raise nothing_beside(
            chosen, "nothing to be compared with", "`opscope summary` tells about one."
        )
    most = SHOWN + 1 if limit is None and format is RowsFormat.TABLE else limit
    messages, whole = Messages(), chosen.job
    answer = of_readable(
        whole,
        f"asking {len(whole)} processes",
        lambda job: job.query(question, engine, most, master),
    ).found
    _show(answer, format, SHOWN if limit is None else limit, messages)
    if answer.silent:
        messages.say(f"without any event: {listed(answer.silent)}")
    is_said = question is JobQuestion.LOSSES  # by the answer itself
    say_what_is_missing(whole, messages, () if is_said else answer.incomplete)


def _show(answer: JobAnswer, format: RowsFormat, shown: int, messages: Messages) -> None:
    rows = answer.rows[:shown] if format is RowsFormat.TABLE else answer.rows
    cells = [list(map(_cell, answer.columns, row)) for row in rows]
    Result(
        sections=[Section(columns=answer.columns, rows=cells, wraps=True)],
        content=answer.as_dicts(),
        columns=answer.columns,
        rows=answer.rows,
    ).show(format)
    if format is RowsFormat.TABLE and len(answer) > shown:
        messages.say(f"only the first {shown} rows; --limit N or --format csv prints more")
    if not len(answer):
        messages.say(f"nothing to tell of {answer.question.value}: {_NOTHING[answer.question]}")


_NOTHING = {
    **dict.fromkeys(
        (JobQuestion.RANKS, JobQuestion.STEPS),
        "no process has steps. A step ends with Optimizer.step, or is marked by prof.step().",
    ),
    **dict.fromkeys(
        (JobQuestion.OPERATORS, JobQuestion.MODULES, JobQuestion.SPREAD),
        "no process ran an operator.",
    ),
    JobQuestion.LINES: "no line of the program was recorded. Record with --stack.",
    JobQuestion.CAUSES: "no process ran anything.",
    JobQuestion.MEMORY: "memory was not recorded. Record with --memory.",
    JobQuestion.LOSSES: "nothing was dropped.",
}


def _cell(column: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    is_amount = column.endswith(_AMOUNTS) and isinstance(value, int)
    return f"{value:,}" if is_amount else str(value)
