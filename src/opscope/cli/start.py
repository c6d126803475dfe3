"""``opscope start``: begin to record in a process that runs."""

from __future__ import annotations

from opscope.cli.asked_trace import arguments_of
from opscope.cli.parameters import ProcessArgument
from opscope.cli.session.recording_switches import RecordedOptions
from opscope.cli.session.termination import unwound_when_ended
from opscope.cli.shown.console import Messages
from opscope.live.control.injection import reach


def start(process: ProcessArgument, recorded: RecordedOptions = ()) -> None:
    """Begin to record in a process that runs, until `opscope stop` ends it.

    What it records fills its memory; for long times use `opscope run --flight-recorder`. If the
    process ends before, what it recorded is lost.
    """
    with unwound_when_ended(), reach(process) as asking:
        asking.ask("start", recorded=arguments_of(recorded))
    Messages().say(f"recording; end it with: opscope stop {process}")
