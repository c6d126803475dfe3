"""Results of several processes side by side, and differences between these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from opscope.base.quantity_text import share_text
from opscope.cli.trace_argument import Chosen, each_process, load_chosen, shared_notes
from opscope.cli.views.console import Messages
from opscope.cli.views.results import Result, Section
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.partition import Partition
from opscope.timeline.typical_stretch import MOST_EVENTS as LONG

if TYPE_CHECKING:
    from opscope.jobs.account_comparison import ComparedShares

_MOST_DIFFERENCES, _MOST_NOTES = 5, 8

Analysis = TypeVar("Analysis")


def answer(
    chosen: Chosen,
    doing: str,
    find: Callable[[TraceData], Analysis],
    result_of: Callable[[Analysis], Result],
    of_all: Callable[[Mapping[Partition, Analysis]], Result] = lambda _: Result(),
    most: int = LONG,
) -> Result:
    """Result for the chosen process, or for all.

    Args:
        chosen: the trace and its processes.
        doing: text of the progress.
        find: analyses one process.
        result_of: makes the result of one analysis.
        of_all: makes further output for several processes: sections in place of the table of
            processes, lines before those about differences, content for JSON.
        most: events of one process from which on a typical stretch of the steady state is analysed.
    """
    if chosen.is_of_several:
        analyses = _analyse_each(chosen, doing, find)
        results = {part: result_of(one) for part, one in analyses.items()}
        return side_by_side(results, chosen, of_all(analyses))
    trace = load_chosen(chosen, most)
    if trace.is_empty:
        raise TraceFormatError(
            f"{chosen.path} contains no events. Record a program that runs torch operators."
        )
    with Messages().progress(doing):
        return result_of(find(trace))


def side_by_side(results: Mapping[Partition, Result], chosen: Chosen, of_all: Result) -> Result:
    """Combine the results of several processes."""
    from opscope.jobs.account_comparison import compare_shares_of

    ranked = sorted(results.items(), key=lambda one: -one[1].weight)
    rows = [(str(part), row) for part, result in ranked for row in result.overview]
    table = Section(
        columns=["Process", *(rows[0][1] if rows else ())],
        rows=[[process, *row.values()] for process, row in rows],
        wraps=True,
    )
    shares: dict[str, dict[Partition, float]] = {}
    for part, result in results.items():
        for what, share in result.shares.items():
            shares.setdefault(what, {})[part] = share
    compared = compare_shares_of(shares, chosen.job.only(results).compared)
    content = {
        "processes": [{p.kind: p.number, **_plain(r.content)} for p, r in results.items()],
        **_plain(of_all.content),
        **({"differences": [one.as_dict() for one in compared.differing]} if shares else {}),
    }
    return Result(
        sections=of_all.sections or ([table] if rows else []),
        content=content,
        columns=("process", *next(iter(results.values())).columns),
        rows=((str(part), *row) for part, result in results.items() for row in result.rows),
        lines=[*of_all.lines, *_differences(compared)],
        notes=shared_notes(
            {p: r.notes for p, r in results.items()}, len(chosen.parts), _MOST_NOTES
        ),
    )


def difference_text(what: str, share: float, process: object, median: float, compared: int) -> str:
    """Sentence about a share that differs between one process and the median."""
    return (
        f"{what}: {share_text(share)} in {process}, {share_text(median)} in the median of "
        f"{compared}."
    )


def _analyse_each(
    chosen: Chosen, doing: str, find: Callable[[TraceData], Analysis]
) -> dict[Partition, Analysis]:
    """Analyse each process; prints why some have no result."""
    analyses: dict[Partition, Analysis] = {}
    failures: dict[Partition, list[str]] = {}
    for part, trace in each_process(chosen, doing):
        try:
            analyses[part] = find(trace)
        except UsageError as error:
            failures[part] = [str(error)]
    for line in shared_notes(failures, len(chosen.parts)):
        Messages().say(line)
    if not analyses:
        raise UsageError(f"No process in {chosen.path} has the data for this view.")
    return analyses


def _plain(content: object) -> Mapping[str, Any]:
    assert isinstance(content, Mapping)
    return content


def _differences(compared: ComparedShares) -> Iterable[str]:
    differing = compared.differing
    for one in differing[:_MOST_DIFFERENCES]:
        yield difference_text(one.what, one.share, one.process, one.middle, one.compared)
    if len(differing) > _MOST_DIFFERENCES:
        yield f"{len(differing) - _MOST_DIFFERENCES:,} more differences: --format json has all."
    if compared.compared and not differing:
        yield "No share differs much between the processes."
