"""``opscope run --flight-recorder``: starts at the program's import of torch, stops at its end."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from opscope.cli.views.console import Messages
from opscope.errors import UsageError
from opscope.live.flight.dumps import Dumps
from opscope.live.flight.recorder import flight_recorder
from opscope.live.flight.settings import triggers_of_a_program
from opscope.torch_api.drop_in.install import install_and_answer

if TYPE_CHECKING:
    from opscope.cli.session.options import RunOptions
    from opscope.live.children.job import FlightJob


_OF_WHOLE_PROGRAMS = ("with_flops", "source_lines")
_OPTIONS = {"last": "--flight-recorder", "max_memory": "--max-memory", "budget": "--budget"}


class FlightSession:
    """A flight recorder for the program; its errors are printed, not raised."""

    def __init__(
        self,
        options: RunOptions,
        flight: dict[str, Any],
        messages: Messages,
        has_children: bool = False,
    ) -> None:
        """Check the options, and prepare the recording of children if ``has_children``.

        ``flight``: ``last``, ``max_memory``, ``budget`` and ``directory``, as for the recorder.
        """
        switches = options.settings.arguments.items()
        record = {name: on for name, on in switches if on and name not in _OF_WHOLE_PROGRAMS}
        arguments = {**flight, "keeper": options.keeper, **record}
        try:
            self._recorder = flight_recorder(**arguments, triggers=triggers_of_a_program())
        except UsageError as error:
            raise type(error)(_with_option_names(str(error))) from None
        self._has_begun = False
        self._messages = messages
        self._directory = Path(flight["directory"])
        self._job: FlightJob | None = None
        if has_children:
            from opscope.live.children.job import FlightJob

            self._job = FlightJob.begin(arguments)

    def begin(self) -> None:
        """Start the recorder; called when torch is imported."""
        self._messages.attempt(self._begin, "The program continues without a flight recorder.")

    def finish(self) -> None:
        """Stop the recorder, and print the dumps."""
        self._messages.attempt(self._finish, "Dumps that were written are kept.")

    def _begin(self) -> None:
        if os.environ.get("OPSCOPE_DROP_IN") != "0":
            install_and_answer()
        self._recorder.start()
        self._has_begun = True
        if self._job is not None:
            self._job.recording_began()
        others = "" if self._job is None else ", or another process of the program"
        self._messages.say(f"flight recorder on; to write a dump: kill -USR2 {os.getpid()}{others}")

    def _finish(self) -> None:
        if self._has_begun:
            self._recorder.stop()
        dumps = self._all_dumps()
        for dump in dumps:
            self._messages.say(f"details: `opscope summary {quote(str(dump))}`")
        unfinished = Dumps(self._directory).count_under_way(os.getpid())
        status = self._recorder.status()
        if self._has_begun and not (dumps or unfinished or status.faults or status.refused):
            self._messages.say(f"no dump: nothing unusual happened, so {self._directory} is empty")

    def _all_dumps(self) -> list[Path]:
        if self._job is None:
            return list(self._recorder.status().dumps)
        processes = self._job.processes()
        self._job.end()
        dumps = Dumps(self._directory)
        if writing := sum(map(dumps.count_under_way, processes)):
            self._messages.say(f"{writing} dumps of other processes are still being written")
        return sorted(path for process in processes for path in dumps.written(process))


def _with_option_names(message: str) -> str:
    """``message`` with options of ``opscope run`` in place of parameters of the recorder."""
    return re.sub(r"\b(last|max_memory|budget)= ?", lambda one: f"{_OPTIONS[one[1]]} ", message)
