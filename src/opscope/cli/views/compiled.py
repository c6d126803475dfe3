"""``opscope summary --compiled``: time in code that torch.compile generated, by source line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from opscope.analysis.compiled_code import (
    CompilationEvent,
    CompiledCode,
    LineTime,
    find_compiled_code,
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
    """Time by line, graph breaks and recompilations, of one process or of all."""
    most = _MOST_ROWS if row_limit is None else row_limit

    def find(trace: TraceData) -> CompiledCode:
        code = find_compiled_code(trace, period)
        if chosen.is_of_several and not code.was_recorded:
            raise UsageError(
                "This trace has no data about compiled code: only opscope recordings have it."
            )
        return code

    return answer(
        chosen,
        "reading compiled code of",
        find,
        lambda code: _result(code, most, "" if period is Which.ALL else _START_UP),
        lambda code: _of_all(code, chosen.job.only(code).compared),
    )


def _result(code: CompiledCode, row_limit: int, hint: str) -> Result:
    shown, left_out = limited(code.lines, row_limit, "lines")
    rows = [_cells(line, code) for line in shown]
    share = code.graphs_ns / max(code.wall_ns, 1)
    shares = {"time in compiled code": share}
    shares |= {"of that with a line": code.coverage_of_graphs} if code.graphs else {}
    none_ran = _NONE_RAN + hint if code.was_recorded else _NOT_RECORDED
    return Result(
        sections=[Section(columns=_HEADINGS, rows=rows, wraps=True)] if rows else [],
        content=code.as_dict(),
        columns=_CSV_HEADINGS,
        rows=(_csv_row(line, code) for line in shown),
        about=[*left_out, *_about(code)],
        notes=[] if code.graphs else [none_ran],
        overview=[_overview(code, share)],
        shares=shares,
    )


def _overview(code: CompiledCode, share: float) -> dict[str, str]:
    most, lines = "--", code.lines
    if lines:
        place = f"{relative_file(lines[0].line.file)}:{lines[0].line.line}"
        most = f"{place} {share_text(lines[0].time_ns / max(code.graphs_ns, 1))}"
    return {
        "Most at": most,
        "Time": time_text(code.graphs_ns),
        "Share": share_text(share),
        "With a line": share_text(code.coverage_of_graphs) if code.graphs else "--",
        "Breaks": f"{len(code.graph_breaks):,}",
        "Again": f"{len(code.recompilations):,}",
        "Compiling": time_text(_compiling_ns(code)),
    }


def _of_all(codes: Mapping[Partition, CompiledCode], compared: Collection[Partition]) -> Result:
    """Results for all processes: where compiled code ran, and each event of torch.compile once."""
    from opscope.findings.job_verdict import shared_compilations

    breaks = shared_compilations({part: one.graph_breaks for part, one in codes.items()})
    again = shared_compilations({part: one.recompilations for part, one in codes.items()})
    with_code = [part for part in compared if codes[part].graphs]
    without_code = [part for part in compared if not codes[part].graphs]
    lines = []
    if with_code and without_code:  # the shares would not show it if they are all small
        where, not_there = (parts_text(parts, len(codes)) for parts in (with_code, without_code))
        lines.append(f"Compiled code ran in {where}, and not in {not_there}.")
    for what, events in (("the graph breaks", breaks), ("compiled again", again)):
        for one in events[:_MOST_EVENTS]:
            times = (
                f"{sum(one.times.values()):,} times in {parts_text(list(one.times), len(codes))}"
            )
            lines.append(f"{what} at {_place(one.event)}, {times}: {one.event.reason}")
        if len(events) > _MOST_EVENTS:
            lines.append(f"{what}: {len(events) - _MOST_EVENTS:,} more in --format json")
    content = {
        "graph_breaks": [one.as_dict() for one in breaks],
        "recompilations": [one.as_dict() for one in again],
    }
    return Result(lines=lines, content=content)


def _place(event: CompilationEvent) -> str:
    return f"{relative_file(event.file)}:{event.line} in {event.function}"


def _compiling_ns(code: CompiledCode) -> int:
    return sum(one.duration_ns for one in code.compilations if one.while_recording)


def _cells(line_time: LineTime, code: CompiledCode) -> tuple[str, ...]:
    line = line_time.line
    return (
        f"{relative_file(line.file)}:{line.line}",
        line.module or "--",
        _first_words(line.operators),
        _first_words(line_time.kernels),
        time_text(line_time.time_ns),
        share_text(line_time.time_ns / max(code.graphs_ns, 1)),
    )


def _csv_row(line_time: LineTime, code: CompiledCode) -> tuple[object, ...]:
    line = line_time.line
    return (
        line.file,
        line.line,
        line.module,
        " ".join(line.operators),
        " ".join(line_time.kernels),
        line_time.time_ns,
        line_time.time_ns / max(code.graphs_ns, 1),
    )


def _first_words(words: tuple[str, ...]) -> str:
    more = len(words) - _MOST_WORDS
    return ", ".join(words[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


def _about(code: CompiledCode) -> list[str]:
    lines = []
    if code.was_recorded and code.graphs:
        lines.append(
            f"{code.graphs:,} runs of compiled graphs took {time_text(code.graphs_ns)}; "
            f"{share_text(code.own_ns / max(code.graphs_ns, 1))} of that is generated code; "
            f"of its kernels and operators {share_text(code.coverage)} has a line, of all of "
            f"it {share_text(code.coverage_of_graphs)}"
        )
        lines += [f"no source line for {c.callee}: {time_text(c.time_ns)}" for c in code.unknown]
    return [*lines, *_about_compiling(code)]


def _about_compiling(code: CompiledCode) -> Iterator[str]:
    if compiling_ns := _compiling_ns(code):
        yield f"torch.compile took {time_text(compiling_ns)} of the recording"
    for what, events in (
        ("the graph breaks", code.graph_breaks),
        ("compiled again", code.recompilations),
    ):
        for event in events[:_MOST_EVENTS]:
            yield f"{what} at {_place(event)}: {event.reason}"
        if len(events) > _MOST_EVENTS:
            yield f"{what}: {len(events) - _MOST_EVENTS} more in --format json"
