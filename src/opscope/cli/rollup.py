"""``opscope rollup``: add up every process of a job, so that questions about it are quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from opscope.cli.parameters import Argument, Option
from opscope.cli.shown.console import Messages
from opscope.errors import TraceFormatError, UsageError
from opscope.jobs.rolled_up import MadeRollups, make_rollups
from opscope.storage.partition import listed


def rollup(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="A job: a folder with rank=N or process=N.")
    ],
    again: Annotated[bool, Option(help="Make them anew where they are there and right, too.")] = (
        False
    ),
) -> None:
    """Add up every process of a job, so that questions about it are quick.

    A rollup is a few small files beside the tables of a process: its steps, causes, operators,
    lines, memory and ledger. What is saved as one of several processes has one already; this makes
    those that are missing, damaged, older than the trace beside them or of another version of
    opscope, several at a time.
    """
    messages = Messages()
    with messages.progress(f"adding up {folder}"):
        made = make_rollups(folder, again)
    _say(made, folder, messages)
    if made.failed:
        raise TraceFormatError(
            f"{len(made.failed)} of {made.count} processes could not be added up: "
            f"{listed(made.failed)}. What is said about them above says what to do."
        )


def _say(made: MadeRollups, folder: Path, messages: Messages) -> None:
    if not made.count:
        raise UsageError(
            f"{folder} holds no trace of opscope's of a process whose recording has ended. Give a "
            "folder with rank=N or process=N, as opscope run --children and Trace.save write it."
        )
    for why in made.failed.values():
        messages.fail(why)
    rest = made.count - len(made.made) - len(made.failed)
    messages.say(
        f"added up {len(made.made)} of {made.count} processes"
        + (f"; of {rest} that was done already" if rest else "")
    )
