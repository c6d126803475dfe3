"""Results of several processes side by side, and the differing processes."""

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

if TYPE_CHECKING:
    from opscope.jobs.account_comparison import ComparedShares

_MOST_DIFFERENCES, _MOST_NOTES = 5, 8

Found = TypeVar("Found")


def answer(
    chosen: Chosen,
    doing: str,
    find: Callable[[TraceData], Found],
    result_of: Callable[[Found], Result],
    of_all: Callable[[Mapping[Partition, Found]], Result] = lambda _: Result(),
) -> Result:
    """Result for the chosen process, or for all.

    Args:
        chosen: what is looked at.
        doing: what is shown to be going on.
        find: looks at one process; called for each.
        result_of: what is shown of it.
        of_all: further output for several processes: sections in place of the table of processes,
            lines before those about differences, content for JSON.
    """
    if chosen.is_of_several:
        found = _find_in_each(chosen, doing, find)
        results = {part: result_of(one) for part, one in found.items()}
        return side_by_side(results, chosen, of_all(found))
    loaded = load_chosen(chosen)
    if loaded.is_empty:
        raise TraceFormatError(
            f"{chosen.path} contains no events. Record a program that runs torch operators."
        )
    with Messages().progress(doing):
        return result_of(find(loaded))


def side_by_side(results: Mapping[Partition, Result], chosen: Chosen, of_all: Result) -> Result:
    """One result of those of several processes."""
    from opscope.jobs.account_comparison import compare_shares_of

    ranked = sorted(results.items(), key=lambda one: -one[1].weight)
    rows = [(str(part), row) for part, result in ranked for row in result.overview]
    table = Section(
        columns=["Process", *(rows[0][1] if rows else ())],
        rows=[[process, *row.values()] for process, row in rows],
        wraps=True,
    )
    by_what: dict[str, dict[Partition, float]] = {}
    for part, result in results.items():
        for what, share in result.shares.items():
            by_what.setdefault(what, {})[part] = share
    compared = compare_shares_of(by_what, chosen.job.only(results).compared)
    content = {
        "processes": [{p.kind: p.number, **_plain(r.content)} for p, r in results.items()],
        **_plain(of_all.content),
        **({"differences": [one.as_dict() for one in compared.differing]} if by_what else {}),
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


def difference_text(what: str, share: float, process: object, middle: float, compared: int) -> str:
    """Sentence about a share that differs between one process and the median."""
    return (
        f"{what}: {share_text(share)} in {process}, {share_text(middle)} in the median of "
        f"{compared}."
    )


def _find_in_each(
    chosen: Chosen, doing: str, find: Callable[[TraceData], Found]
) -> dict[Partition, Found]:
    """The result of each process, or the reason why there is none."""
    found: dict[Partition, Found] = {}
    nothing: dict[Partition, list[str]] = {}
    for part, trace in each_process(chosen, doing):
        try:
            found[part] = find(trace)
        except UsageError as error:
            nothing[part] = [str(error)]
    for line in shared_notes(nothing, len(chosen.parts)):
        Messages().say(line)
    if not found:
        raise UsageError(f"No process in {chosen.path} has the data for this view.")
    return found


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
