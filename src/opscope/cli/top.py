"""Show what a running process does: operators, modules, memory, step time, overhead.

The process records until this command ends, and this command computes the table. `q` or Ctrl-C ends
the command and the recording.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from argparse import Namespace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.analysis.top_operators import (
    DEFAULT_SORT,
    TopOperators,
    check_row_limit,
    find_top_operators,
    has_work,
)
from opscope.base.printable import printable
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.attach import add_process, arguments_of
from opscope.cli.parser import Parser, add_row_limit, example, seconds
from opscope.cli.session.options import add_switches
from opscope.cli.session.termination import unwound_when_ended
from opscope.cli.views.completeness import describe_completeness
from opscope.cli.views.console import console_for
from opscope.cli.views.operator_table import operator_text
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.live.control.client import ControlClient
from opscope.live.control.injection import reach
from opscope.recording.streams.detached_trace import trace_of_log
from opscope.timeline.period import Which, period_of

_MOST_MODULES = 8


def options(parser: Parser) -> None:
    """Add the options."""
    add_process(parser)
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=seconds(0.1, 3600),
        default=2.0,
        help="Seconds between updates. [default: 2]",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="Print once and exit; the default if the output is a pipe or a file.",
    )
    add_row_limit(parser, 15, "Operators to show")
    add_switches(parser.add_argument_group("what to record"))
    parser.epilog = example("opscope top 4711", "opscope top 4711 --once --modules > now.txt")


def main(args: Namespace) -> None:
    """Show a process until the user ends the command."""
    rows, console = check_row_limit(args.row_limit), console_for(sys.stdout)
    is_live = console.is_terminal and not args.once
    with (
        unwound_when_ended(),
        reach(args.process) as client,
        contextlib.suppress(KeyboardInterrupt),
    ):
        client.request("record", recorded=arguments_of(args.recorded))
        client.request_log("sample")  # the steps begin to be counted
        time.sleep(args.every)
        if not is_live:
            console.print(view_of(client.status, *_sample(client, rows), console.width))
        else:
            _live(client, console, args.every, rows)


def _live(client: ControlClient, console: Any, every_s: float, rows: int) -> None:
    from rich.live import Live

    with TypedKeys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            display = view_of(client.status, *_sample(client, rows), console.width)
            live.update(display, refresh=True)
            if keys.wait_for(b"qQ", every_s):
                return


def _sample(client: ControlClient, rows: int) -> tuple[TraceData, TopOperators, dict[str, Any]]:
    """The trace since the last sample, its operators, and the process's answer."""
    log, answer = client.request_log("sample")
    trace = trace_of_log(log, answer.get("facts", {}))
    period = period_of(trace, Which.ALL)
    return trace, find_top_operators(period, sort_by=DEFAULT_SORT, row_limit=rows), answer


def view_of(
    status: dict[str, Any], trace: TraceData, top: TopOperators, answer: dict[str, Any], width: int
) -> RenderableType:
    """The display: lines about the process, operators, modules."""
    steps = steps_text(answer["steps"], answer["steps_ns"])
    lines = [
        f"process {status['process']}: {status['command']}",
        f"{steps}; {_memory_text(int(status['process']))}",
        f"{describe_completeness(trace)}{own_share_text(trace)}",
    ]
    parts: list[RenderableType] = [
        Text(printable(line), overflow="ellipsis", no_wrap=True) for line in lines
    ]
    if has_work(trace):
        parts.append(operator_text(top, width))
    else:
        parts.append(Text("no operators ran since the last update"))
    parts += [Text(printable(line)) for line in module_lines(trace)]
    return Group(*parts)


def steps_text(count: int, durations_ns: list[int]) -> str:
    """Text: number of steps, median and slowest step."""
    if not count or not durations_ns:
        return f"{count} steps"
    sorted_ns = np.sort(np.array(durations_ns, dtype=np.int64))
    median, slowest = time_text(int(sorted_ns[len(sorted_ns) // 2])), time_text(int(sorted_ns[-1]))
    sample_text = f" (of the last {len(sorted_ns)})" if len(sorted_ns) < count else ""
    return f"{count} steps{sample_text}: median {median}, slowest {slowest}"


def own_share_text(trace: TraceData) -> str:
    """Text: overhead as a share of the time; empty if unknown."""
    cost_ns = cost_of_an_event_ns(trace)
    duration_ns = trace.metadata["end_ns"] - trace.metadata["start_ns"]
    if not cost_ns or duration_ns <= 0:
        return ""
    return f", {share_text(len(trace.events) * cost_ns / duration_ns)} of the time"


def module_lines(trace: TraceData) -> list[str]:
    """Lines about the modules with most total time."""
    events = trace.events
    calls = np.flatnonzero(events["kind"] == EventKind.MODULE_CALL)
    if not len(calls):
        return []
    names, group = np.unique(events["name"][calls], return_inverse=True)
    times = np.bincount(group, weights=events["duration_ns"][calls].astype(np.float64))
    count = np.bincount(group)
    order = np.argsort(-times)[:_MOST_MODULES]
    return ["modules, including submodules:"] + [
        f"  {trace.names[names[row]]}: {count[row]:,} calls, {time_text(int(times[row]))}"
        for row in order
    ]


def _memory_text(process: int) -> str:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines()
        )
        kibibytes = int(fields["VmRSS"].split()[0])
        return f"{kibibytes >> 10:,} MiB resident"
    return "memory unknown"


class TypedKeys:
    """Reads keys without a newline from a terminal, and restores the terminal; Ctrl-C works."""

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._before: list[Any] | None = None

    def wait_for(self, keys: bytes, seconds: float) -> bool:
        """Wait for this time; True once one of ``keys`` is typed or the terminal is closed."""
        until_s = time.monotonic() + seconds
        while self._before is not None and (left_s := until_s - time.monotonic()) > 0:
            if not select.select([self._file], [], [], left_s)[0]:
                return False
            typed = b""
            with contextlib.suppress(OSError):
                typed = os.read(self._file, 100)
            if not typed or set(typed) & set(keys):
                return True
        time.sleep(max(until_s - time.monotonic(), 0))
        return False

    def __enter__(self) -> TypedKeys:
        with contextlib.suppress(OSError, termios.error):
            # In the background, changing the terminal would stop this process.
            if os.tcgetpgrp(self._file) == os.getpgrp():
                self._before = termios.tcgetattr(self._file)
                tty.setcbreak(self._file, termios.TCSANOW)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._file, termios.TCSANOW, self._before)
            self._before = None
