"""``opscope stop``: end what ``opscope start`` began."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from opscope.cli.asked_trace import folder_for, keep
from opscope.cli.parameters import Option
from opscope.cli.process_argument import ProcessArgument
from opscope.control.client import connect


def stop(
    process: ProcessArgument,
    output: Annotated[
        Path | None,
        Option(
            names=("--output", "-o"),
            metavar="DIR",
            help="Folder of the trace; a trace that is there already is replaced.",
            default="NAME-PID.opscope",
        ),
    ] = None,
) -> None:
    """End the recording that `opscope start` began in a process, and write a trace of it."""
    with connect(process) as asking:
        folder = folder_for(output, process, asking.status["command"])
        log, answer = asking.log_of("stop", folder=str(folder))
    keep(log, answer, folder)
