"""What a process has recorded for us, as a trace in a folder, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from opscope.cli import destination
from opscope.cli.parameters import Option
from opscope.cli.shown.completeness import describe_completeness
from opscope.cli.shown.console import Messages
from opscope.cli.shown.headline import headline
from opscope.columns.trace_data import TraceData
from opscope.jobs.saving import save_trace
from opscope.recording.sources import switches
from opscope.recording.streams.detached_trace import trace_of_log
from opscope.recording.streams.load import load_trace

TraceFolder = Annotated[
    Path | None,
    Option(
        names=("--output", "-o"),
        metavar="DIR",
        help="Folder of the trace; a trace that is there already is replaced.",
        default="NAME-PID.opscope",
    ),
]


def arguments_of(recorded: Collection[str]) -> dict[str, bool]:
    """Switches as arguments of a profile, as a process is asked with them."""
    return {s.parameter: True for s in switches() if s.option in recorded and s.parameter}


def folder_for(output: Path | None, process: int, command: str) -> Path:
    """Where the trace goes: where asked, or a new folder here.

    Raises:
        UsageError: something else is there, or nothing can be written.
    """
    words = [Path(word).stem for word in command.split() if word.endswith(".py")]
    name = re.sub(r"[^\w.-]+", "-", words[0] if words else "process")
    place = destination.choose(output, None, f"{name}-{process}")
    place.check()
    return place.trace


def keep(log: bytes, answer: dict[str, Any], folder: Path) -> None:
    """Make a trace of a log, unless the process has, and say what it shows.

    Raises:
        OpscopeError: it cannot be made or written.
    """
    messages = Messages()
    trace, written = _written(log, answer, folder)
    messages.say(f"trace written to {written}")
    for line in headline(trace):
        messages.say(line)
    messages.say(describe_completeness(trace))
    messages.say(f"look closer with `opscope summary {quote(str(written))}`")


def _written(log: bytes, answer: dict[str, Any], folder: Path) -> tuple[TraceData, Path]:
    if "trace" in answer:
        return load_trace(answer["trace"]), Path(answer["trace"])
    trace = trace_of_log(log, answer.get("facts", {}))
    save_trace(trace, folder)
    return trace, folder
