"""``opscope attach``: record a process that runs, for a while."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from opscope.cli.asked_trace import TraceFolder, arguments_of, folder_for, keep
from opscope.cli.parameters import Option, ProcessArgument
from opscope.cli.session.recording_switches import RecordedOptions
from opscope.cli.session.termination import unwound_when_ended
from opscope.cli.shown.console import Messages
from opscope.errors import UsageError
from opscope.live.control.injection import reach

_LONGEST_S = 86_400.0


def attach(
    process: ProcessArgument,
    seconds: Annotated[
        str, Option(metavar="N", help="How long to record; Ctrl-C ends it earlier.")
    ] = "10",
    output: TraceFolder = None,
    recorded: RecordedOptions = (),
) -> None:
    """Record a process that runs, write a trace, and leave the process as it was.

    The process copies what it recorded into a file of ours; the trace is made of it here, so that
    costs the process nothing. It has to listen (see `opscope ps`); from Python 3.14 on it is asked
    to if it does not.
    """
    duration_s = _duration_s(seconds)
    with unwound_when_ended():
        folder, (log, answer) = _recorded(process, duration_s, output, recorded)
        keep(log, answer, folder)


def _recorded(
    process: int, duration_s: float, output: Path | None, recorded: Collection[str]
) -> tuple[Path, tuple[bytes, dict[str, Any]]]:
    """Where the trace goes, what was recorded, and what the process said of it."""
    with reach(process) as asking:
        folder = folder_for(output, process, asking.status["command"])
        asking.ask("record", recorded=arguments_of(recorded))
        try:
            Messages().say(f"recording process {process} for {duration_s:g} s ...")
            asking.wait(duration_s)
        except KeyboardInterrupt:
            Messages().say("ended early")
        return folder, asking.log_of("hand over", folder=str(folder))


def _duration_s(text: str) -> float:
    try:
        duration_s = float(text)
    except ValueError:
        duration_s = -1.0
    if not 0 < duration_s <= _LONGEST_S:
        raise UsageError(f"--seconds {text!r} is no time. Give a number of seconds, such as 10.")
    return duration_s
