"""``opscope mcp``: eight tools for agents over the Model Context Protocol.

Every result is a brief over ``Answers``. Errors are quoted too: their text may contain names from
the trace.
"""

from __future__ import annotations

import functools
import secrets
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opscope.api.job import Job
from opscope.errors import OpscopeError, UsageError, not_installed
from opscope.readers.agent_report import (
    DEFAULT_TOKENS,
    comparison_brief,
    explain_brief,
    findings_brief,
    query_brief,
    verdict_brief,
)
from opscope.readers.quoting import LEGEND, quoted
from opscope.readers.recorded_run import record_run
from opscope.readers.session import Session

MOST_ROWS, MOST_ERROR = 1000, 600
LONGEST_S = 3600

_INSTRUCTIONS = (
    "opscope reads profiles of PyTorch programs. Begin with verdict(trace); explain(trace, id) has "
    "the evidence of a finding; sql answers anything else. After a change: record, compare, "
    f"decide. {LEGEND}"
)


class Tools:
    """Tools of an agent; each returns Markdown. ``trace`` is a path or an id of ``open``."""

    def __init__(self, may_run: bool) -> None:
        self._session, self._may_run = Session(), may_run

    def all(self) -> list[Callable[..., str]]:
        """All tools; ``record`` only if the agent may run programs."""
        tools: list[Callable[..., str]] = [self.open, self.verdict, self.findings, self.explain]
        tools += [self.sql, self.compare, self.decide]
        return [*tools, self.record] if self._may_run else tools

    def open(self, trace: str, rank: int | None = None, process: int | None = None) -> str:
        """Open a trace: a folder that opscope wrote, or a Chrome trace of any profiler. For a job
        with several processes, give rank or process to open one. Returns its id and its tables."""
        name = self._session.open(trace, rank, process)
        held, answers = self._session.held(name)
        listed = "\n".join(
            f"- {table}: {', '.join(answers.columns(table))}" for table in answers.own_tables
        )
        size = f"{len(held)} processes" if isinstance(held, Job) else f"{len(held.events)} events"
        more = (
            "This is a job; to open one process, give its rank or process: "
            + ", ".join(str(part) for part in list(held)[:20])
            if isinstance(held, Job)
            else "Also the trace's own tables: named_events (names as text), events, allocations, "
            "gpu, python_calls, threads, ...; `describe events` lists columns."
        )
        return (
            f"{name} is {quoted(answers.about)}, {size}. {LEGEND}\n\nTables for sql. Times in _ns "
            f"are nanoseconds, shares of the period:\n{listed}\n\n{more}\n"
        )

    def verdict(self, trace: str, tokens: int = DEFAULT_TOKENS) -> str:
        """Is the program slow, why, at which line, what to change, and what the fix saves."""
        return verdict_brief(self._session.answers(trace), tokens)

    def findings(self, trace: str, tokens: int = DEFAULT_TOKENS) -> str:
        """Every known problem that the trace shows, sorted by saving."""
        return findings_brief(self._session.one(trace)[1], tokens)

    def explain(self, trace: str, what: str, tokens: int = DEFAULT_TOKENS) -> str:
        """The evidence for a finding (its id), a line (train.py:12) or an operator (aten::mm)."""
        return explain_brief(self._session.one(trace)[1], what, tokens)

    def sql(self, trace: str, query: str, rows: int = 50, tokens: int = DEFAULT_TOKENS) -> str:
        """Run one SELECT of DuckDB over the tables that open() lists, or over those of a
        comparison. Read-only: no files, no network; at most 60 s."""
        if not 1 <= rows <= MOST_ROWS:
            raise UsageError(f"rows is {rows}. Give a number between 1 and {MOST_ROWS}.")
        return query_brief(self._session.answers(trace), query, rows, tokens)

    def compare(self, old: list[str], new: list[str], tokens: int = DEFAULT_TOKENS) -> str:
        """Compare recordings of two versions: significant changes of time, calls and bytes. Give
        three or more of each, recorded alternately. Returns an id for sql and decide."""
        name = self._session.compare(old, new)
        return f"{name} is this comparison.\n" + comparison_brief(
            self._session.answers(name), tokens
        )

    def record(self, command: str, trace: str = "", why: bool = True, timeout_s: int = 600) -> str:
        """Run a Python program and record it. command is the text after `python`, such as
        "train.py --epochs 1". It runs with the user's rights. trace is the folder to write."""
        words = shlex.split(command)
        if not words or (words[0].startswith("-") and words[0] not in ("-m", "-c")):
            raise UsageError("command has to begin with a script, or with -m MODULE.")
        if not 1 <= timeout_s <= LONGEST_S:
            raise UsageError(f"timeout_s is {timeout_s}. Give 1 to {LONGEST_S} seconds.")
        folder = Path(trace or tempfile.mkdtemp(prefix="opscope-") + "/recorded.opscope")
        options = ("--why",) if why else ()
        run = record_run(words, folder, options=options, timeout_s=timeout_s)
        lines = [f"- exit code: {run.exit_code}", f"- last output: {quoted(run.output, 800)}"]
        lines += ["- it was stopped: it exceeded the time limit"] if run.is_late else []
        if run.trace is None:
            return "\n".join(["No trace was written.", *lines, quoted(run.messages, 1500)]) + "\n"
        lines.append(f"- trace: {quoted(run.trace)}")
        return "\n".join([LEGEND, *lines, "", self.verdict(str(run.trace))])

    def decide(self, comparison: str, gate: str = "step<=+2%", reason: str = "") -> str:
        """Accept or reject the new version by a gate, such as "step<=-3%" (at least 3 % faster) or
        "step<=+2%,memory<=+1%,count==", and store the decision beside its trace."""
        decision, judged, file = self._session.decide(comparison, gate, reason)
        lines = [
            f"- {quoted(one.condition.text)}: {one.outcome.value}, {quoted(one.why, 300)}"
            for one in judged
        ]
        return "\n".join([f"{decision}. Stored in {quoted(file)}.", *lines, ""])

    def call(self, tool: Callable[..., str], *given: Any, **named: Any) -> str:
        """Call a tool; one call at a time, because traces cache results without a lock."""
        with self._session.lock:
            return tool(*given, **named)


def server(may_run: bool, version: str) -> Any:
    """The server with its tools.

    Raises:
        MissingDependencyError: the package mcp is not installed.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise not_installed("mcp", "opscope mcp") from error
    mcp = MCPServer("opscope", instructions=_INSTRUCTIONS, version=version, log_level="WARNING")
    tools = Tools(may_run)

    def answering(tool: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(tool)
        def call(*given: Any, **named: Any) -> str:
            try:
                return tools.call(tool, *given, **named)
            except (OpscopeError, OSError, ValueError) as error:
                raise ToolError(quoted(error, MOST_ERROR)) from None

        return call

    for tool in tools.all():
        mcp.add_tool(answering(tool), structured_output=False)
    return mcp


def serve(may_run: bool, port: int | None, version: str, announce: Callable[[str], object]) -> None:
    """Serve on standard input and output, or at an address of this machine.

    ``announce`` receives the address. It contains a random token, because every user of the machine
    can connect to the port.
    """
    mcp = server(may_run, version)
    if port is None:
        mcp.run("stdio")
        return
    path = f"/{secrets.token_urlsafe(24)}/mcp"
    announce(f"http://127.0.0.1:{port}{path}")
    mcp.run("streamable-http", host="127.0.0.1", port=port, streamable_http_path=path)
