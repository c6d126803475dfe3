"""``opscope summary --compiled``: which lines the time is of in what torch.compile generated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from opscope.analysis.compiled_code import (
    CompilationEvent,
    CompiledCode,
    LineTime,
    find_compiled_code,
    shared_compilations,
)
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.trace_argument import Chosen
from opscope.cli.views.findings import relative_file
from opscope.cli.views.results import Result, Section, limited
from opscope.cli.views.side_by_side import answer
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.storage.partition import Partition, parts_text
from opscope.timeline.period import Which

_HEADINGS = ("Line", "Module", "Operators", "Kernels", "Time", "Share")
_CSV_HEADINGS = ("file", "line", "module", "operators", "kernels", "time_ns", "share")
_NOT_RECORDED = "compiled code was not recorded: only opscope recordings since 0.1 have it"
_NONE_RAN = "no code from torch.compile ran in this period"
_START_UP = "; --period all includes start-up"
_MOST_ROWS = 20
_MOST_EVENTS = 10
_MOST_WORDS = 3


def compiled(chosen: Chosen, period: Which, row_limit: int | None) -> Result:
    """Lines of compiled code, and what torch.compile did, of one process or all of them."""
    most = _MOST_ROWS if row_limit is None else row_limit

    def find(one: TraceData) -> CompiledCode:
        found = find_compiled_code(one, period)
        if chosen.is_of_several and not found.was_recorded:
            raise UsageError(
                "This trace has no data about compiled code: only opscope recordings have it."
            )
        return found

    return answer(
        chosen,
        "reading compiled code of",
        find,
        lambda found: _result(found, most, "" if period is Which.ALL else _START_UP),
        lambda found: _of_all(found, chosen.job.only(found).compared),
    )


def _result(found: CompiledCode, row_limit: int, elsewhere: str) -> Result:
    shown, left_out = limited(found.lines, row_limit, "lines")
    rows = [_cells(line, found) for line in shown]
    share = found.graphs_ns / max(found.wall_ns, 1)
    shares = {"time in compiled code": share}
    shares |= {"of that with a line": found.coverage_of_graphs} if found.graphs else {}
    none_ran = _NONE_RAN + elsewhere if found.was_recorded else _NOT_RECORDED
    return Result(
        sections=[Section(columns=_HEADINGS, rows=rows, wraps=True)] if rows else [],
        content=found.as_dict(),
        columns=_CSV_HEADINGS,
        rows=(_csv_row(line, found) for line in shown),
        about=[*left_out, *_about(found)],
        notes=[] if found.graphs else [none_ran],
        overview=[_overview(found, share)],
        shares=shares,
    )


def _overview(found: CompiledCode, share: float) -> dict[str, str]:
    most, lines = "--", found.lines
    if lines:
        place = f"{relative_file(lines[0].line.file)}:{lines[0].line.line}"
        most = f"{place} {share_text(lines[0].time_ns / max(found.graphs_ns, 1))}"
    return {
        "Most at": most,
        "Time": time_text(found.graphs_ns),
        "Share": share_text(share),
        "With a line": share_text(found.coverage_of_graphs) if found.graphs else "--",
        "Breaks": f"{len(found.graph_breaks):,}",
        "Again": f"{len(found.recompilations):,}",
        "Compiling": time_text(_compiling_ns(found)),
    }


def _of_all(found: Mapping[Partition, CompiledCode], compared: Collection[Partition]) -> Result:
    """Results for all processes: notes on missing compiled code, and each event of torch.compile
    once."""
    breaks = shared_compilations({part: one.graph_breaks for part, one in found.items()})
    again = shared_compilations({part: one.recompilations for part, one in found.items()})
    ran = [part for part in compared if found[part].graphs]
    none = [part for part in compared if not found[part].graphs]
    lines = []
    if ran and none:  # its share of the time may be small everywhere
        where, not_there = (parts_text(parts, len(found)) for parts in (ran, none))
        lines.append(f"Compiled code ran in {where}, and not in {not_there}.")
    for what, shared in (("the graph breaks", breaks), ("compiled again", again)):
        for one in shared[:_MOST_EVENTS]:
            times = (
                f"{sum(one.times.values()):,} times in {parts_text(list(one.times), len(found))}"
            )
            lines.append(f"{what} at {_place(one.event)}, {times}: {one.event.reason}")
        if len(shared) > _MOST_EVENTS:
            lines.append(f"{what}: {len(shared) - _MOST_EVENTS:,} more in --format json")
    content = {
        "graph_breaks": [one.as_dict() for one in breaks],
        "recompilations": [one.as_dict() for one in again],
    }
    return Result(lines=lines, content=content)


def _place(event: CompilationEvent) -> str:
    return f"{relative_file(event.file)}:{event.line} in {event.function}"


def _compiling_ns(found: CompiledCode) -> int:
    return sum(one.duration_ns for one in found.compilations if one.while_recording)


def _cells(one: LineTime, found: CompiledCode) -> tuple[str, ...]:
    line = one.line
    return (
        f"{relative_file(line.file)}:{line.line}",
        line.module or "--",
        _few(line.operators),
        _few(one.kernels),
        time_text(one.time_ns),
        share_text(one.time_ns / max(found.graphs_ns, 1)),
    )


def _csv_row(one: LineTime, found: CompiledCode) -> tuple[object, ...]:
    line = one.line
    return (
        line.file,
        line.line,
        line.module,
        " ".join(line.operators),
        " ".join(one.kernels),
        one.time_ns,
        one.time_ns / max(found.graphs_ns, 1),
    )


def _few(words: tuple[str, ...]) -> str:
    more = len(words) - _MOST_WORDS
    return ", ".join(words[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


def _about(found: CompiledCode) -> list[str]:
    lines = []
    if found.was_recorded and found.graphs:
        lines.append(
            f"{found.graphs:,} runs of compiled graphs took {time_text(found.graphs_ns)}; "
            f"{share_text(found.own_ns / max(found.graphs_ns, 1))} of that is generated code; "
            f"of its kernels and operators {share_text(found.coverage)} has a line, of all of "
            f"it {share_text(found.coverage_of_graphs)}"
        )
        lines += [f"no source line for {c.callee}: {time_text(c.time_ns)}" for c in found.unknown]
    return [*lines, *_about_compiling(found)]


def _about_compiling(found: CompiledCode) -> Iterator[str]:
    if compiling_ns := _compiling_ns(found):
        yield f"torch.compile took {time_text(compiling_ns)} of the recording"
    for what, events in (
        ("the graph breaks", found.graph_breaks),
        ("compiled again", found.recompilations),
    ):
        for event in events[:_MOST_EVENTS]:
            yield f"{what} at {_place(event)}: {event.reason}"
        if len(events) > _MOST_EVENTS:
            yield f"{what}: {len(events) - _MOST_EVENTS} more in --format json"
