"""``opscope dump``: what a process did just now."""

from __future__ import annotations

from typing import Annotated

from opscope.cli.parameters import Option, ProcessArgument
from opscope.cli.shown.console import Output
from opscope.live.control.client import connect


def dump(
    process: ProcessArgument,
    reason: Annotated[
        str, Option(metavar="TEXT", help="Why, in a few words; part of the trace.")
    ] = "",
) -> None:
    """Have the flight recorder of a process write what it holds, and print where.

    While its GIL is held a process cannot be asked. Its flight recorder then still hears a signal:
    kill -USR2 PID.
    """
    with connect(process) as asking:
        answer = asking.ask("dump", reason=reason)
    Output().show(f"{answer['trace']}\n")
