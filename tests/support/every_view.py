"""Everything that can be asked of a trace on disk, so that a hostile one meets all of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import opscope
from opscope.analysis.flops import count_flops
from opscope.analysis.long_top_operators import find_long_top_operators
from opscope.analysis.top_operators import DEFAULT_SORT
from opscope.analysis.torch_listing.averages import key_averages
from opscope.api.trace import Trace
from opscope.cli.trace_argument import stretch_of
from opscope.columns.schema import TABLES
from opscope.errors import OpscopeError
from opscope.export.all_formats import FORMATS
from opscope.export.collapsed_stacks import METRICS, write_stacks
from opscope.readers.mcp_server import server
from opscope.readers.notebook import CellProfile
from opscope.report.live_page import LivePage, windowed_page
from opscope.report.page import report_html
from opscope.report.windows import Windows
from opscope.storage.long_trace import LongTrace
from opscope.storage.sql_on_disk import query_long
from opscope.timeline.listing import TorchListing
from opscope.timeline.period import Which
from opscope.timeline.stacks import Stacks
from support.corruptions import ORDER
from support.processes import opscope_here
from support.read_report import read_report

_SUFFIXES = {"memory-timeline": ".memory.json"}
_JSON = {"chrome", "speedscope", "execution-trace", "memory-timeline"}
_COMMANDS = (
    ["summary"],
    ["summary", "--format", "json"],
    ["why", "--all", "--format", "json"],
    ["why", "--all"],
    ["why"],
    ["why", "--format", "json"],
    ["memory"],
)


class NotJson(AssertionError):
    """A file for other tools that they cannot read."""


def look_at_everything(path: Path, folder: Path) -> str:
    """Load ``path`` and ask for every view; returns what became of it.

    Only errors of opscope's own are expected; all others are for whoever calls.
    """
    _run_commands(path, folder)
    try:
        trace = opscope.load(path)
    except OpscopeError as error:
        assert str(error).rstrip().endswith((".", ")")), f"no sentence: {error}"
        return "refused"
    return _shown((*_views(trace, folder), *_readers(trace, path)))


def look_as_readers(path: Path) -> str:
    """Only what agents, notebooks and a page that is served show of it."""
    try:
        trace = opscope.load(path)
    except OpscopeError:
        _shown([lambda: _agent(path), lambda: _served(path), lambda: _summed(path)])
        return "refused"
    return _shown(_readers(trace, path))


def _shown(views: Iterable[Callable[[], Any]]) -> str:
    shown = 0
    for view in views:
        try:
            view()
            shown += 1
        except OpscopeError:
            continue  # a view that this trace has nothing for
    return f"shown in {shown} views"


def replay_again(path: Path) -> str:
    """Run the operators of ``path`` again; returns what became of it."""
    said = _run("export", "--replay", str(path), "--repeat", "1", "--format", "json")
    if not said:
        return "refused"
    _check_json("replay", said)
    result = json.loads(said)
    assert result["replayed"] and all(call["replayed_ns"] >= 0 for call in result["replayed"])
    return f"replayed {len(result['replayed'])} of {len(result['refused'])} more"


def _run_commands(path: Path, folder: Path) -> None:
    """The command line: whatever happens is an exit code and a sentence."""
    for arguments in _COMMANDS:
        command, *options = arguments
        said = _run(command, str(path), *options)
        if said and "json" in options:
            _check_json(" ".join(arguments), said)
    query = "select kind, count(*), sum(duration_us) from named_events group by all"
    _run("sql", str(path), query)
    _run("export", str(path), "-o", str(folder / "averages.csv"))


def _run(*arguments: str) -> str:
    """What the command printed, if it came to an end without an error."""
    done = opscope_here(*arguments)
    assert done.returncode in (0, 1, 2), f"exit code {done.returncode}: {done.stderr[-500:]}"
    return "" if done.returncode else done.stdout


def _views(trace: Trace, folder: Path) -> list[Callable[[], Any]]:
    views: list[Callable[[], Any]] = [
        lambda: _walk(trace),
        lambda: read_report(report_html(trace)),
        lambda: _average(trace),
        lambda: _stacks(trace),
        lambda: trace.peak_memory().to_dict(),
        lambda: trace.findings().as_dict(),
        lambda: trace.critical_path().as_dict(),
        lambda: trace.what_if({}).saved_ns,
        lambda: [trace.to_arrow(table) for table in (*TABLES, "names")],
        lambda: trace.sql("select * from named_events").fetchall(),
        lambda: _round_trip(trace, folder),
    ]
    views += [lambda f=f: _export(trace, f.name, folder) for f in FORMATS]
    views += [lambda m=m: write_stacks(trace, folder / "stacks.txt", m) for m in METRICS]
    return views


def _readers(trace: Trace, path: Path) -> list[Callable[[], Any]]:
    windowed = [lambda: _served(path), lambda: _summed(path)] if path.is_dir() else []
    return [lambda: _agent(path), lambda: _cell(trace), *windowed]


@cache
def server_of_agents() -> Any:
    """One for all traces, as agents have it."""
    return server(False, "1")


def _agent(path: Path) -> None:
    """What an agent gets: one line a line, short, and nothing of a trace outside of quotes."""
    made = server_of_agents()
    from mcp.server.mcpserver.exceptions import ToolError

    def call(tool: str, **arguments: Any) -> str:
        try:
            result = asyncio.run(made.call_tool(tool, arguments or {"trace": str(path)}))
            text: str = result.content[0].text
        except ToolError as error:
            _, _, text = str(error).partition(": ")
            assert text.startswith("«") and text.endswith("»"), f"not one of ours: {error}"
        assert text.replace("\n", "").isprintable()
        assert tool == "open" or len(text.encode()) <= 6000
        assert all(line.count("«") == line.count("»") for line in text.splitlines())
        assert ORDER not in re.sub("«[^«»]*»", "", text)
        return text

    for tool in ("open", "verdict", "findings"):
        call(tool)
    call("sql", trace=str(path), query="select * from named_events", rows=20)
    call("explain", trace=str(path), what="aten")
    found = call("sql", trace=str(path), query="select id from findings")
    for finding in re.findall("«([a-z-]+)»", found):
        call("explain", trace=str(path), what=finding)
    compared = call("compare", old=[str(path)], new=[str(path)])
    if compared.startswith("c"):
        call("decide", comparison=compared.split()[0], gate="step<=+2%,memory<=+1%,count==")


def _cell(trace: Trace) -> None:
    """What a notebook shows: its page is one attribute, in which nothing is markup."""
    before, _, page = CellProfile(trace)._repr_html_().partition('<iframe srcdoc="')
    page, _, after = page.partition('"')
    assert "<" not in page and "<script" not in (before + after).lower()


def _served(path: Path) -> None:
    """What a page that is served requests; of a long trace no more than that is read."""
    long = LongTrace.at(path)
    windows = Windows(long)
    part = long.between(windows.begin_ns, windows.end_ns + 1)
    html, start_ns = windowed_page(windows, part, long.rows, "", Which.ALL)
    read_report(html)
    page = LivePage(lambda: html, lambda text: query_long(long, text, True), windows, start_ns)
    end = windows.end_ns - start_ns
    for name, query in (
        ("spans", {"from": "0", "to": str(max(end, 1))}),
        ("spans", {"from": str(end // 3), "to": str(end // 3 + max(end // 2000, 1))}),
        ("find", {"text": "a", "after": "0"}),
        ("find", {"text": "", "after": str(end), "backwards": "1"}),
        ("sql", {"query": "select * from named_events"}),
    ):
        with contextlib.suppress(OpscopeError):
            _check_json(name, json.dumps(page.answer(name, query)))


def _summed(path: Path) -> None:
    """What commands read of a long trace."""
    long = LongTrace.at(path)
    find_long_top_operators(long, sort_by=DEFAULT_SORT, row_limit=-1)
    stretch_of(long, most=20)


def _walk(trace: Trace) -> None:
    tree = trace.tree()
    seen = 0
    for node in tree.depth_first():
        repr(node)
        _ = node.detail, node.parent, node.children, node.duration_ns
        seen += 1
    assert seen == len(tree), f"{seen} of {len(tree)} nodes are in the tree"


def _average(trace: Trace) -> None:
    flops = count_flops(trace)
    assert (flops.flops >= 0).all() and 0 <= flops.coverage <= 1
    averages = key_averages(
        trace,
        group_by_input_shape=True,
        group_by_stack_n=3,
        group_by_overload_name=True,
        flops=flops,
    )
    assert int(np.sum(averages.count)) >= 0


def _stacks(trace: Trace) -> None:
    stacks = Stacks(TorchListing(trace))
    for event in range(min(len(trace.events), 300)):
        stacks.of(event)


def _export(trace: Trace, format: str, folder: Path) -> None:
    file = folder / f"exported{_SUFFIXES.get(format, '')}"
    trace.export(format, file)
    if format in _JSON:
        _check_json(format, file.read_bytes())


def _check_json(what: str, text: str | bytes) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotJson(f"{what}: {error}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _round_trip(trace: Trace, folder: Path) -> None:
    """What was read can be written, and read again."""
    trace.save(folder / "again", rank=0)
    again = opscope.load(folder / "again")
    for name in set(TABLES) - {"ledger"}:
        assert len(again.table(name)) == len(trace.table(name)), name
