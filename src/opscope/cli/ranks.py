"""Compare the ranks of a job: which rank the others wait for, why, and where.

Ranks that wait for each other in every step all have the same step time. So opscope compares own
times: step time minus waiting for other ranks. It names a rank if its own time exceeds that of the
others by more than chance; in a job of equal ranks the risk of a wrong name is 1 %. Record with
`opscope run --children` to get causes of waiting, lines and modules. In JSON and CSV, times are
mean nanoseconds of a step.

--collectives: speed of each collective, and which rank the others waited for. A collective is
matched across ranks by its process group and sequence number. Transfer is the time from the last
rank's arrival to the end; wait is the time from a rank's arrival to the last one's; exposed is
communication that no compute hides. Bandwidths are defined as in nccl-tests. Clocks of several
machines are aligned by the collectives; the remaining error is printed.

--ask QUESTION prints one table. The tables come from statistics that are computed once for each
process and kept in the folder. --rollup computes them ahead of time. Questions:
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from opscope._native import keep_freed_memory
from opscope.api.job import Job
from opscope.cli.parser import Parser, example, one_of, whole_number
from opscope.cli.trace_argument import Chosen, add_trace, choose_trace, load_chosen
from opscope.cli.views.console import Messages
from opscope.cli.views.results import Result, RowsFormat, Section, add_format
from opscope.cli.whole_job import of_readable, report_missing
from opscope.errors import TraceFormatError, UsageError
from opscope.jobs.collective_kinds import (
    CollectiveKind,
    RankWaits,
    collective_kinds,
    kind_table,
    rank_table,
    rank_waits,
    sentences,
)
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.job_rollups import make_rollups
from opscope.jobs.questions.engines import EngineName
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rank_path import rank_path
from opscope.jobs.slow_ranks import SlowRank
from opscope.storage.partition import listed

SHOWN = 40
"""Default number of rows of ``--ask`` in a table."""

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
"""Suffixes of columns whose numbers are printed with thousands separators."""


def options(parser: Parser) -> None:
    """Add the options, and the list of questions to the description."""
    meanings = "\n".join(f"- {one.value}: {one.meaning}" for one in JobQuestion)
    parser.description = f"{parser.description}\n\n{meanings}"
    add_trace(parser, period=False, part=False)
    what = parser.add_argument_group("other views").add_mutually_exclusive_group()
    what.add_argument(
        "--collectives", action="store_true", help="Collectives: speed, transfer and waiting times."
    )
    questions = {**one_of(JobQuestion), "metavar": "QUESTION"}
    names = ", ".join(one.value for one in JobQuestion)
    what.add_argument("--ask", **questions, help=f"Print one table: {names}.")
    what.add_argument(
        "--rollup",
        action="store_true",
        help="Precompute the statistics of every process, which makes --ask fast.",
    )
    parser.add_argument(
        "--again", action="store_true", help="With --rollup: recompute existing statistics."
    )
    parser.add_argument(
        "--engine",
        default=EngineName.DUCKDB,
        **one_of(EngineName),
        help="With --ask: query engine; results are the same. [default: duckdb]",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark master, as in spark://host:7077. [default: $OPSCOPE_SPARK_MASTER, else local]",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number(1),
        help="With --ask: maximum number of rows. [default: 40 in a table, else all]",
    )
    add_format(parser)
    parser.epilog = example("opscope ranks job", "opscope ranks job --ask spread --limit 10")


def main(args: Namespace) -> None:
    """Print the requested view of a job."""
    if args.rollup:
        return _roll_up(args.trace or choose_trace(args).path, args.again)
    if not args.ask:
        keep_freed_memory()
    chosen = choose_trace(args)
    if not chosen.is_of_several:
        raise _single_process_error(chosen)
    if args.ask:
        _show_answer(chosen, args)
    elif args.collectives:
        _show_collectives(chosen, args.format)
    else:
        _show_slow_ranks(chosen, args.format)


def _single_process_error(chosen: Chosen) -> UsageError:
    """UsageError for a single process; raises the error of a process that cannot be read."""
    if not chosen.parts or chosen.part not in (None, *chosen.parts):
        load_chosen(chosen)
    problem = "cannot be compared with others"
    if len(chosen.parts) > 1:
        return UsageError(
            f"{chosen.part} alone {problem}. Choose several ranks, as in --rank 0,4-7, or omit "
            "--rank."
        )
    return UsageError(
        f"{chosen.path} contains one process, which {problem}. Record the job with `opscope run "
        "--children`; for one process, use `opscope summary`."
    )


def _show_slow_ranks(chosen: Chosen, format: RowsFormat) -> None:
    job = chosen.job
    doing = f"comparing {len(job)} processes"
    slow_ranks, *_ = of_readable(job, doing, Job.slow_ranks, fewest=2)
    lines = slow_ranks.sentences()
    if format is RowsFormat.CSV:  # its rows have the content of the first lines
        lines = lines[len(slow_ranks.found) :]
    Result(
        content=slow_ranks.as_dict(),
        columns=_SLOW_COLUMNS,
        rows=map(_slow_row, slow_ranks.found),
        lines=lines,
    ).show(format)
    report_missing(job, Messages())


def _slow_row(slow_rank: SlowRank) -> list[object]:
    row = slow_rank.as_dict()
    excess = slow_rank.excess.as_dict() if slow_rank.excess is not None else {}
    values = [row[key] for key in _SLOW_COLUMNS[1:9]]
    return [str(slow_rank.process), *values, *(excess.get(key, "") for key in _SLOW_COLUMNS[9:])]


def _show_collectives(chosen: Chosen, format: RowsFormat) -> None:
    job = chosen.job
    doing = f"matching the collectives of {len(job)} processes"
    collectives, *_ = of_readable(job, doing, Job.collectives, fewest=2)
    kinds, waits = collective_kinds(collectives), rank_waits(collectives)
    shown_kinds = kinds[:_MOST_KINDS] if format is RowsFormat.TABLE else kinds
    left_out = len(kinds) - len(shown_kinds)
    notes = [f"and {left_out} more; --format csv has all"] if left_out else []
    by_kind, by_rank = kind_table(shown_kinds), rank_table(waits)
    sections = [
        Section(columns=by_kind.columns, rows=by_kind.rows, notes=notes),
        Section(columns=by_rank.columns, rows=by_rank.rows),
    ]
    Result(
        sections=sections if kinds else [],
        content=_as_dict(collectives, kinds, waits),
        columns=_KIND_COLUMNS,
        rows=([kind.as_dict()[key] for key in _KIND_COLUMNS] for kind in kinds),
        lines=sentences(collectives),
    ).show(format)
    report_missing(job, Messages())


def _as_dict(
    collectives: JobCollectives, kinds: list[CollectiveKind], waits: list[RankWaits]
) -> dict[str, object]:
    return {
        "collectives": [kind.as_dict() for kind in kinds],
        "processes": [one.as_dict() for one in waits],
        "path": rank_path(collectives).as_dict(),
        "clocks": str(collectives.clocks),
        "unmatched": collectives.unmatched,
        "absent_ranks": collectives.absent_ranks,
    }


def _show_answer(chosen: Chosen, args: Namespace) -> None:
    is_table = args.format is RowsFormat.TABLE
    most = SHOWN + 1 if args.limit is None and is_table else args.limit
    messages, chosen_job = Messages(), chosen.job
    answer, *_ = of_readable(
        chosen_job,
        f"querying {len(chosen_job)} processes",
        lambda job: job.query(args.ask, args.engine, most, args.master),
    )
    shown = args.limit or SHOWN
    rows = answer.rows[:shown] if is_table else answer.rows
    cells = [list(map(_cell, answer.columns, row)) for row in rows]
    Result(
        sections=[Section(columns=answer.columns, rows=cells, wraps=True)],
        content=answer.as_dicts(),
        columns=answer.columns,
        rows=answer.rows,
    ).show(args.format)
    if is_table and len(answer) > shown:
        messages.say(f"only the first {shown} rows; --limit N or --format csv prints more")
    if not len(answer):
        messages.say(f"no rows for {args.ask.value}: {_WHY_EMPTY[args.ask]}")
    if answer.silent:
        messages.say(f"without any event: {listed(answer.silent)}")
    shows_losses = args.ask is JobQuestion.LOSSES
    report_missing(chosen_job, messages, () if shows_losses else answer.incomplete)


_WHY_EMPTY = {
    **dict.fromkeys(
        (JobQuestion.RANKS, JobQuestion.STEPS),
        "no process has steps. A step ends when Optimizer.step or prof.step() returns.",
    ),
    **dict.fromkeys(
        (JobQuestion.OPERATORS, JobQuestion.MODULES, JobQuestion.SPREAD),
        "no process ran an operator.",
    ),
    JobQuestion.LINES: "source lines were not recorded. Record with --stack.",
    JobQuestion.CAUSES: "no process has events.",
    JobQuestion.MEMORY: "memory was not recorded. Record with --memory.",
    JobQuestion.LOSSES: "nothing was dropped.",
}


def _cell(column: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    is_amount = column.endswith(_AMOUNTS) and isinstance(value, int)
    return f"{value:,}" if is_amount else str(value)


def _roll_up(folder: Path, again: bool) -> None:
    messages = Messages()
    with messages.progress(f"computing statistics of {folder}"):
        rollups = make_rollups(folder, again)
    if not rollups.count:
        raise UsageError(
            f"{folder} contains no finished opscope trace of a process. Name a folder with "
            "subfolders rank=N or process=N, as `opscope run --children` and Trace.save write "
            "it."
        )
    for why in rollups.failed.values():
        messages.fail(why)
    unchanged = rollups.count - len(rollups.made) - len(rollups.failed)
    messages.say(
        f"computed the statistics of {len(rollups.made)} of {rollups.count} processes"
        + (f"; {unchanged} were up to date" if unchanged else "")
    )
    if rollups.failed:
        raise TraceFormatError(
            f"The statistics of {len(rollups.failed)} of {rollups.count} processes could not be "
            f"computed: {listed(rollups.failed)}. The reasons are printed above."
        )
