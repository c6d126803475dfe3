"""``opscope top``: what a process does, as it does it."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Annotated, Any

from opscope.analysis.top_operators import DEFAULT_SORT, check_row_limit, find_top_operators
from opscope.cli.asked_trace import arguments_of
from opscope.cli.parameters import Option, ProcessArgument
from opscope.cli.session.live_view import LiveView, TypedKeys
from opscope.cli.session.recording_switches import RecordedOptions
from opscope.cli.session.termination import unwound_when_ended
from opscope.cli.shown.console import console_for
from opscope.errors import UsageError
from opscope.live.control.client import Asking
from opscope.live.control.injection import reach
from opscope.recording.streams.detached_trace import trace_of_log
from opscope.timeline.period import Which, period_of


def top(
    process: ProcessArgument,
    every: Annotated[str, Option(metavar="SECONDS", help="How often it is looked at.")] = "2",
    once: Annotated[
        bool, Option(help="Show one look and end; what a pipe or file gets anyway.")
    ] = False,
    row_limit: Annotated[int, Option(metavar="N", help="Operators to show.")] = 15,
    recorded: RecordedOptions = (),
) -> None:
    """Show live what a process does: operators, modules, memory, step time, own cost.

    The process records, and hands over what it has at each look; the table is made here. `q` or
    Ctrl-C ends it and leaves the process as it was; so does a signal that asks it to end.
    """
    every_s, rows = _seconds(every), check_row_limit(row_limit)
    console = console_for(sys.stdout)
    is_live = console.is_terminal and not once
    with unwound_when_ended(), reach(process) as asking, contextlib.suppress(KeyboardInterrupt):
        asking.ask("record", recorded=arguments_of(recorded))
        _take(asking)  # the steps begin to be counted
        view = LiveView(asking.status)
        time.sleep(every_s)
        if not is_live:
            console.print(view.of(*_looked(asking, rows), console.width))
        else:
            _live(asking, view, console, every_s, rows)


def _live(asking: Asking, view: LiveView, console: Any, every_s: float, rows: int) -> None:
    from rich.live import Live

    with TypedKeys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view.of(*_looked(asking, rows), console.width), refresh=True)
            if keys.wait_for(b"qQ", every_s):
                return


def _take(asking: Asking) -> tuple[bytes, dict[str, Any]]:
    return asking.log_of("sample")


def _looked(asking: Asking, rows: int) -> tuple[Any, Any, dict[str, Any]]:
    """The trace of the last while, its operators, and what else the process said."""
    log, answer = _take(asking)
    trace = trace_of_log(log, answer.get("facts", {}))
    period = period_of(trace, Which.ALL)
    return trace, find_top_operators(period, sort_by=DEFAULT_SORT, row_limit=rows), answer


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise UsageError(f"--every {text!r} is no time between 0.1 and 3600 seconds. Give one.")
    return seconds
