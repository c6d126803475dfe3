"""``opscope stop``: end what ``opscope start`` began."""

from __future__ import annotations

from opscope.cli.asked_trace import TraceFolder, folder_for, keep
from opscope.cli.parameters import ProcessArgument
from opscope.live.control.client import connect


def stop(process: ProcessArgument, output: TraceFolder = None) -> None:
    """End the recording that `opscope start` began in a process, and write a trace of it."""
    with connect(process) as asking:
        folder = folder_for(output, process, asking.status["command"])
        log, answer = asking.log_of("stop", folder=str(folder))
    keep(log, answer, folder)
