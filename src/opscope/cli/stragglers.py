"""``opscope stragglers``: which rank of a job the others wait for, and why."""

from __future__ import annotations

from opscope._native import keep_freed_memory
from opscope.api.job import Job
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import FormatOption, Result, RowsFormat
from opscope.cli.trace_argument import (
    RankOption,
    TraceArgument,
    choose_trace,
    nothing_beside,
)
from opscope.cli.whole_job import of_readable, say_what_is_missing
from opscope.jobs.slow_ranks import SlowRank

_HEADING = (
    "process", "own_ns", "others_ns", "cause", "cause_ns", "recurrence", "waited_ns", "gain_ns",
    "step_ns", "phase", "place", "function", "module", "operator",
)  # fmt: skip


def stragglers(
    trace: TraceArgument = None,
    format: FormatOption = RowsFormat.TABLE,
    rank: RankOption = None,
) -> None:
    """Show which rank of a job the others wait for, how often, why, and where.

    Ranks that wait for each other in every step take equally long for it, whoever is slow; so they
    are compared by the time in which they do not wait for others. A rank is named if its own time
    is longer than that of the others by more than chance: of jobs whose ranks are alike, one in a
    hundred may have one named.

    Record with `opscope run --children --why`: causes of waiting, lines and modules are in it. In
    JSON and CSV, times are nanoseconds of a step, on average.
    """
    keep_freed_memory()
    chosen = choose_trace(trace, rank)
    if not chosen.is_of_several:
        raise nothing_beside(
            chosen,
            "nothing to be compared with",
            "Record the job with `opscope run --children`.",
        )
    messages, whole = Messages(), chosen.job
    found = of_readable(whole, f"comparing {len(whole)} processes", Job.slow_ranks, fewest=2).found
    said = found.sentences()
    if format is RowsFormat.CSV:  # its rows are what is said first
        said = said[len(found.found) :]
    Result(
        sections=[],
        content=found.as_dict(),
        columns=_HEADING,
        rows=map(_row, found.found),
        lines=said,
    ).show(format)
    say_what_is_missing(whole, messages)


def _row(one: SlowRank) -> list[object]:
    said = one.as_dict()
    where = one.excess.as_dict() if one.excess is not None else {}
    values = [said[key] for key in _HEADING[1:9]]
    return [str(one.process), *values, *(where.get(key, "") for key in _HEADING[9:])]
