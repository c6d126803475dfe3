"""``opscope ps``: which processes can be asked."""

from __future__ import annotations

import time
from typing import Any

from opscope.base.printable import printable
from opscope.cli.shown.console import Messages
from opscope.cli.shown.results import FormatOption, Result, RowsFormat, Section
from opscope.errors import ReachError
from opscope.live.control.address import Address, addresses, remove_if_stale
from opscope.live.control.client import Asking

_HEADING = ("pid", "since", "recording", "torch", "command")
_ANSWER_S = 1.0


def ps(
    format: FormatOption = RowsFormat.TABLE,
) -> None:
    """List the processes of this user that opscope can reach while they run.

    Those that `attach`, `start`, `stop`, `dump`, `status` and `top` take: they called
    opscope.listen(), or have OPSCOPE_CONTROL=1 in their environment and import opscope or run under
    `opscope run`. Sockets of processes that are gone are removed.
    """
    there = [address for address in addresses() if not remove_if_stale(address)]
    rows = [_row(address) for address in there]
    Result(
        sections=[Section(columns=_HEADING, rows=rows, wraps=True)] if rows else [],
        content=[
            {**dict(zip(_HEADING, row, strict=True)), "pid": address.process}
            for address, row in zip(there, rows, strict=True)
        ],
        columns=_HEADING,
        rows=rows,
    ).show(format)
    if not rows and format is RowsFormat.TABLE:
        Messages().say(
            "no process of yours listens; start one with OPSCOPE_CONTROL=1 under `opscope run`, or "
            "have it call opscope.listen()"
        )


def _row(address: Address) -> tuple[str, ...]:
    try:
        with Asking(address, _ANSWER_S) as asking:
            return (str(address.process), *described(asking.status))
    except ReachError:
        return (str(address.process), "", "does not answer", "", "")


def described(status: dict[str, Any]) -> tuple[str, ...]:
    """What is listed of a process that answers, behind its number."""
    since = time.strftime("%H:%M:%S", time.localtime(status["listening_since_ns"] / 1e9))
    flights = ", ".join(f"flight recorder {one['held_s']:.0f} s" for one in status["flight"])
    recording = flights or ("yes" if status["recording"] else "no")
    return since, recording, status["torch"] or "not imported", printable(status["command"])
