"""``opscope collectives``: what went on between the ranks of a job, and who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence

from opscope._native import keep_freed_memory
from opscope.api.job import Job
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import FormatOption, Result, RowsFormat, Section
from opscope.cli.trace_argument import RankOption, TraceArgument, choose_trace, nothing_beside
from opscope.cli.whole_job import of_readable, say_what_is_missing
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
from opscope.jobs.rank_path import rank_path

_MOST_KINDS = 20


def collectives(
    trace: TraceArgument = None,
    format: FormatOption = RowsFormat.TABLE,
    rank: RankOption = None,
) -> None:
    """Show the collectives of a job: how fast they were, and who waited for whom.

    A collective is matched across ranks by its group and its number there. Transfer is the time
    from when the last rank took part until the last one had all; wait is what a rank was there
    before that; exposed is what it had nothing else to do meanwhile. Bandwidths are those of
    nccl-tests. Clocks of several machines are brought together by the collectives themselves, and
    how well that went is said.

    Record arguments (`opscope run --children --why`, or `--shapes`): groups and sizes are in them.
    """
    keep_freed_memory()
    chosen = choose_trace(trace, rank)
    if not chosen.is_of_several:
        raise nothing_beside(
            chosen,
            "nobody that it could wait for",
            "Record the job with `opscope run --children`.",
        )
    messages, whole = Messages(), chosen.job
    doing = f"matching what {len(whole)} processes did together"
    found = of_readable(whole, doing, Job.collectives, fewest=2).found
    kinds, waits = collective_kinds(found), rank_waits(found)
    few = kinds[:_MOST_KINDS] if format is RowsFormat.TABLE else kinds
    more = len(kinds) - len(few)
    Result(
        sections=[
            _section(kind_table(few), [f"and {more} more; --format csv has all"] if more else []),
            _section(rank_table(waits)),
        ]
        if kinds
        else [],
        content=_as_dict(found, kinds, waits),
        columns=_CSV_HEADINGS,
        rows=([kind.as_dict()[key] for key in _CSV_HEADINGS] for kind in kinds),
        lines=sentences(found),
    ).show(format)
    say_what_is_missing(whole, messages)


_CSV_HEADINGS = (
    "name", "group", "size_bytes", "count", "transfer_ns", "wait_ns", "skew_ns",
    "exposed_ns", "algorithm_bytes_per_s", "bus_bytes_per_s", "last", "last_share",
)  # fmt: skip


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
