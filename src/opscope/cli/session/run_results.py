"""What ``opscope run`` writes at its end: a trace, and pictures of it where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from opscope.cli.destination import Destination, write_or_rescue
from opscope.cli.shown.console import Messages
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError

WriteFile = Callable[[TraceData, "str | os.PathLike[str]"], object]


def draw(trace: TraceData, destination: Destination, messages: Messages, of_what: str = "") -> None:
    """Write the files that were asked for; one that fails costs nothing else."""
    for what, write, file in _pictures(destination):
        try:
            written = write_said(what, partial(write, trace), file, messages)
            messages.say(f"{what}{of_what} written to {written}")
        except (OpscopeError, OSError, MemoryError) as error:
            messages.fail(f"The {what} could not be written: {reason(error)}")


def write_said(what: str, write: Callable[[Path], object], path: Path, messages: Messages) -> Path:
    """Write one file or folder; where it is.

    Raises:
        OpscopeError, OSError: it cannot be written anywhere.
    """
    with messages.progress(f"writing the {what}"):
        written, refused = write_or_rescue(write, path)
    if refused is not None:
        messages.fail(f"{refused} It went elsewhere instead:")
    return written


def reason(error: BaseException) -> str:
    """What is wrong, as part of a sentence."""
    if isinstance(error, MemoryError):  # of which libraries say no more than a function's name
        return "there is not enough memory. Free or allow some more, or record less."
    return str(error)


def _pictures(destination: Destination) -> Iterator[tuple[str, WriteFile, Path]]:
    if destination.chrome is not None:
        from opscope.export.chrome.writer import write_chrome_trace

        yield "Chrome trace", write_chrome_trace, destination.chrome
    if destination.report is not None:
        from opscope.report.page import write_report

        yield "report", write_report, destination.report
