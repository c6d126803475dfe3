"""Compiled code of several processes, side by side, and what torch.compile did in which of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opscope.analysis.compiled_code import CompilationEvent, CompiledCode
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli.finding_formats import below_here
from opscope.cli.side_by_side import SideBySide
from opscope.job.compared_shares import compare_shares_of
from opscope.job.shared_compilations import SharedCompilation, shared_compilations
from opscope.trace.partition import Partition, parts_text

Found = Mapping[Partition, CompiledCode]

_HEADING = (
    "Process", "Most at", "Time", "Share", "With a line", "Breaks", "Again", "Compiling",
)  # fmt: skip
_TEXTS = 2
_MOST_EVENTS = 10


def side_by_side(
    found: Found,
    among: Collection[Partition],
    csv_heading: Sequence[str],
    csv_rows: Mapping[Partition, Iterable[Sequence[object]]],
) -> SideBySide:
    """A row for each; ``among`` are compared."""
    ran = {part: one for part, one in found.items() if one.graphs}
    shares = {
        "time in compiled code": {part: _share(one) for part, one in found.items()},
        "of that with a line": {part: one.coverage_of_graphs for part, one in ran.items()},
    }
    breaks = shared_compilations({part: one.graph_breaks for part, one in found.items()})
    again = shared_compilations({part: one.recompilations for part, one in found.items()})
    return SideBySide(
        heading=_HEADING,
        rows=[_row(part, one) for part, one in found.items()],
        texts=_TEXTS,
        contents={part: one.as_dict() for part, one in found.items()},
        csv_heading=csv_heading,
        csv_rows=csv_rows,
        compared=compare_shares_of(shares, among),
        sentences=[
            *_who_ran_none(found, among),
            *_sentences("the graph breaks", breaks, len(found)),
            *_sentences("compiled again", again, len(found)),
        ],
        of_all={
            "graph_breaks": [one.as_dict() for one in breaks],
            "recompilations": [one.as_dict() for one in again],
        },
    )


def _who_ran_none(found: Found, among: Collection[Partition]) -> Iterator[str]:
    """Where some run compiled code and some none: its share of the time may be small everywhere."""
    compared = [part for part in found if part in among]
    ran = [part for part in compared if found[part].graphs]
    none = [part for part in compared if not found[part].graphs]
    if ran and none:
        yield (
            f"Compiled code ran in {parts_text(ran, len(found))}, and not in "
            f"{parts_text(none, len(found))}."
        )


def place_text(event: CompilationEvent) -> str:
    """Where it was, in few words."""
    return f"{below_here(event.file)}:{event.line} in {event.function}"


def _share(one: CompiledCode) -> float:
    return one.graphs_ns / max(one.wall_ns, 1)


def _row(part: Partition, one: CompiledCode) -> tuple[str, ...]:
    lines = one.lines
    most = "--"
    if lines:
        place = f"{below_here(lines[0].line.file)}:{lines[0].line.line}"
        most = f"{place} {share_text(lines[0].time_ns / max(one.graphs_ns, 1))}"
    compiling_ns = sum(each.duration_ns for each in one.compilations if each.while_recording)
    return (
        str(part),
        most,
        time_text(one.graphs_ns),
        share_text(_share(one)),
        share_text(one.coverage_of_graphs) if one.graphs else "--",
        f"{len(one.graph_breaks):,}",
        f"{len(one.recompilations):,}",
        time_text(compiling_ns),
    )


def _sentences(what: str, shared: list[SharedCompilation], among: int) -> Iterator[str]:
    for one in shared[:_MOST_EVENTS]:
        event, times = one.event, sum(one.times.values())
        where = parts_text(list(one.times), among)
        yield f"{what} at {place_text(event)}, {times:,} times in {where}: {event.reason}"
    if len(shared) > _MOST_EVENTS:
        yield f"{what}: {len(shared) - _MOST_EVENTS:,} more in --format json"
