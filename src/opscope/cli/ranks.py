"""Compare the ranks of a job: which one the others wait for, why, and where.

Ranks that wait for each other in every step take equally long for it, whoever is slow; so they are
compared by the time in which they do not wait for others. A rank is named if its own time is longer
than that of the others by more than chance: of jobs whose ranks are alike, one in a hundred may
have one named. Record with `opscope run --children`: causes of waiting, lines and modules are
in it. In JSON and CSV, times are nanoseconds of a step, on average.

--collectives: how fast what ranks did together was, and who waited for whom. A collective is
matched across ranks by its group and its number there. Transfer is the time from when the last rank
took part until the last one had all; wait is what a rank was there before that; exposed is what it
had nothing else to do meanwhile. Bandwidths are those of nccl-tests. Clocks of several machines are
brought together by the collectives themselves, and how well that went is said.

--ask: ranks: what a step of each takes without waiting for others, and in how many it is the
slowest. steps: which rank takes longest for each step. operators, modules, lines: own time over all
ranks, and who has most and least of it. spread: who has more of what than the median. causes: what
the time of each went to. memory: how much each had in use at its peak. losses: what was dropped of
recordings, or only a newer opscope knows. The answers are made of what was added up of each process
when it was saved; what lacks that is added up first, and kept. --rollup does so beforehand.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from opscope._native import keep_freed_memory
from opscope.api.job import Job
from opscope.cli.parser import Parser, example, one_of, whole_number
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import Result, RowsFormat, Section, add_format
from opscope.cli.trace_argument import Chosen, add_trace, choose_trace, load_chosen
from opscope.cli.whole_job import of_readable, say_what_is_missing
from opscope.errors import TraceFormatError, UsageError
from opscope.jobs.collective_kinds import (
    CollectiveKind,
    RankWaits,
    TextTable,
    collective_kinds,
    kind_table,
    rank_table,
    rank_waits,
    sentences,
)
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.questions.engines import EngineName
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rank_path import rank_path
from opscope.jobs.rolled_up import make_rollups
from opscope.jobs.slow_ranks import SlowRank
from opscope.storage.partition import listed

SHOWN = 40
"""Rows of an answer on a terminal, unless told otherwise."""

_MOST_KINDS = 20
_SLOW_COLUMNS = (
    "process", "own_ns", "others_ns", "cause", "cause_ns", "recurrence", "waited_ns", "gain_ns",
    "step_ns", "phase", "place", "function", "module", "operator",
)  # fmt: skip
_KIND_COLUMNS = (
    "name", "group", "size_bytes", "count", "transfer_ns", "wait_ns", "skew_ns",
    "exposed_ns", "algorithm_bytes_per_s", "bus_bytes_per_s", "last", "last_share",
)  # fmt: skip
_AMOUNTS = ("_ns", "bytes", "calls", "dropped")
"""How columns end whose large numbers are read in groups of three digits."""


def options(parser: Parser) -> None:
    """Declare them."""
    add_trace(parser, period=False, part=False)
    what = parser.add_argument_group("instead of the slow rank").add_mutually_exclusive_group()
    what.add_argument(
        "--collectives", action="store_true", help="What ranks did together, and who waited."
    )
    questions = {**one_of(JobQuestion), "metavar": "QUESTION"}
    names = ", ".join(one.value for one in JobQuestion)
    what.add_argument("--ask", **questions, help=f"One of {names}.")
    what.add_argument(
        "--rollup", action="store_true", help="Add up every process, so that --ask is quick."
    )
    parser.add_argument(
        "--again", action="store_true", help="With --rollup: also what is there and right."
    )
    parser.add_argument(
        "--engine",
        default=EngineName.DUCKDB,
        **one_of(EngineName),
        help="With --ask: what answers; the answers are the same. [default: duckdb]",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Of Spark, as in spark://host:7077. [default: $OPSCOPE_SPARK_MASTER, else this "
        "machine]",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number(1),
        help="With --ask: rows at most. [default: 40 in a table, else all]",
    )
    add_format(parser)
    parser.epilog = example("opscope ranks job", "opscope ranks job --ask spread --limit 10")


def main(asked: Namespace) -> None:
    """Print what was asked of a job."""
    if asked.rollup:
        return _roll_up(asked.trace or choose_trace(asked).path, asked.again)
    if not asked.ask:
        keep_freed_memory()
    chosen = choose_trace(asked)
    if not chosen.is_of_several:
        raise _nothing_beside(chosen)
    if asked.ask:
        _show_answer(chosen, asked)
    elif asked.collectives:
        _show_collectives(chosen, asked.format)
    else:
        _show_slow_ranks(chosen, asked.format)


def _nothing_beside(chosen: Chosen) -> UsageError:
    """What is wrong where one process is looked at, unless it cannot be read."""
    if not chosen.parts or chosen.part not in (None, *chosen.parts):
        load_chosen(chosen)
    lacks = "has nothing to be compared with"
    if len(chosen.parts) > 1:
        return UsageError(
            f"{chosen.part} alone {lacks}. Name several ranks, as in --rank 0,4-7, or leave --rank "
            "out."
        )
    return UsageError(
        f"{chosen.path} holds one process, which {lacks}. Record the job with `opscope run "
        "--children`; `opscope summary` tells about one."
    )


def _show_slow_ranks(chosen: Chosen, format: RowsFormat) -> None:
    whole = chosen.job
    doing = f"comparing {len(whole)} processes"
    found, *_ = of_readable(whole, doing, Job.slow_ranks, fewest=2)
    said = found.sentences()
    if format is RowsFormat.CSV:  # its rows are what is said first
        said = said[len(found.found) :]
    Result(
        content=found.as_dict(),
        columns=_SLOW_COLUMNS,
        rows=map(_slow_row, found.found),
        lines=said,
    ).show(format)
    say_what_is_missing(whole, Messages())


def _slow_row(one: SlowRank) -> list[object]:
    said = one.as_dict()
    where = one.excess.as_dict() if one.excess is not None else {}
    values = [said[key] for key in _SLOW_COLUMNS[1:9]]
    return [str(one.process), *values, *(where.get(key, "") for key in _SLOW_COLUMNS[9:])]


def _show_collectives(chosen: Chosen, format: RowsFormat) -> None:
    whole = chosen.job
    doing = f"matching what {len(whole)} processes did together"
    found, *_ = of_readable(whole, doing, Job.collectives, fewest=2)
    kinds, waits = collective_kinds(found), rank_waits(found)
    few = kinds[:_MOST_KINDS] if format is RowsFormat.TABLE else kinds
    more = len(kinds) - len(few)
    notes = [f"and {more} more; --format csv has all"] if more else []
    tables = [_section(kind_table(few), notes), _section(rank_table(waits))]
    Result(
        sections=tables if kinds else [],
        content=_as_dict(found, kinds, waits),
        columns=_KIND_COLUMNS,
        rows=([kind.as_dict()[key] for key in _KIND_COLUMNS] for kind in kinds),
        lines=sentences(found),
    ).show(format)
    say_what_is_missing(whole, Messages())


def _as_dict(
    found: JobCollectives, kinds: list[CollectiveKind], waits: list[RankWaits]
) -> dict[str, object]:
    return {
        "collectives": [kind.as_dict() for kind in kinds],
        "processes": [one.as_dict() for one in waits],
        "path": rank_path(found).as_dict(),
        "clocks": str(found.clocks),
        "unmatched": found.unmatched,
        "absent_ranks": found.absent_ranks,
    }


def _section(table: TextTable, notes: Sequence[str] = ()) -> Section:
    cells = zip(table.names, *(column for _, column in table.columns), strict=True)
    headings = [table.heading, *(title for title, _ in table.columns)]
    return Section(columns=headings, rows=list(cells), notes=notes)


def _show_answer(chosen: Chosen, asked: Namespace) -> None:
    is_table = asked.format is RowsFormat.TABLE
    most = SHOWN + 1 if asked.limit is None and is_table else asked.limit
    messages, whole = Messages(), chosen.job
    answer, *_ = of_readable(
        whole,
        f"asking {len(whole)} processes",
        lambda job: job.query(asked.ask, asked.engine, most, asked.master),
    )
    shown = asked.limit or SHOWN
    rows = answer.rows[:shown] if is_table else answer.rows
    cells = [list(map(_cell, answer.columns, row)) for row in rows]
    Result(
        sections=[Section(columns=answer.columns, rows=cells, wraps=True)],
        content=answer.as_dicts(),
        columns=answer.columns,
        rows=answer.rows,
    ).show(asked.format)
    if is_table and len(answer) > shown:
        messages.say(f"only the first {shown} rows; --limit N or --format csv prints more")
    if not len(answer):
        messages.say(f"nothing to tell of {asked.ask.value}: {_NOTHING[asked.ask]}")
    if answer.silent:
        messages.say(f"without any event: {listed(answer.silent)}")
    is_said = asked.ask is JobQuestion.LOSSES  # by the answer itself
    say_what_is_missing(whole, messages, () if is_said else answer.incomplete)


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


def _roll_up(folder: Path, again: bool) -> None:
    """A rollup is a few small files beside the tables of a process."""
    messages = Messages()
    with messages.progress(f"adding up {folder}"):
        made = make_rollups(folder, again)
    if not made.count:
        raise UsageError(
            f"{folder} holds no trace of opscope's of a process whose recording has ended. Give a "
            "folder with rank=N or process=N, as opscope run --children and Trace.save write it."
        )
    for why in made.failed.values():
        messages.fail(why)
    rest = made.count - len(made.made) - len(made.failed)
    messages.say(
        f"added up {len(made.made)} of {made.count} processes"
        + (f"; of {rest} that was done already" if rest else "")
    )
    if made.failed:
        raise TraceFormatError(
            f"{len(made.failed)} of {made.count} processes could not be added up: "
            f"{listed(made.failed)}. What is said about them above says what to do."
        )
