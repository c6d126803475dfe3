"""A flight recorder around a program: begun when it imports torch, ended with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opscope.cli.console import Messages
from opscope.drop_in.install import install_and_answer
from opscope.flight.recorder import flight_recorder
from opscope.flight.settings import default_triggers
from opscope.flight.triggers.on_signal import OnSignal

if TYPE_CHECKING:
    from opscope.cli.flight_options import FlightOptions
    from opscope.cli.run_options import RunOptions

_SIGNAL = "SIGUSR2"


class FlightSession:
    """Says what was dumped; a fault of its own never reaches the program."""

    def __init__(self, options: RunOptions, flight: FlightOptions, messages: Messages) -> None:
        """Check the options.

        Raises:
            UsageError: one of them makes no sense.
        """
        record = {name: on for name, on in options.settings.arguments.items() if on}
        self._recorder = flight_recorder(
            flight.last,
            max_memory=flight.max_memory,
            budget=flight.budget,
            directory=flight.directory,
            triggers=[*default_triggers(), OnSignal(_SIGNAL)],
            **_recordable(record),
        )
        self._has_begun = False
        self._messages = messages
        self._directory = flight.directory

    def begin(self) -> None:
        """Start; torch is imported. If that fails, say so and let the program run."""
        self._guarded(self._begin, "The program runs on without a flight recorder.")

    def finish(self) -> None:
        """Stop, and say which dumps there are."""
        self._guarded(self._finish, "Dumps that were written are kept.")

    def _begin(self) -> None:
        if os.environ.get("OPSCOPE_DROP_IN") != "0":
            install_and_answer()
        self._recorder.start()
        self._has_begun = True
        self._messages.say(
            f"flight recorder on; to have what happened last: kill -USR2 {os.getpid()}"
        )

    def _finish(self) -> None:
        if not self._has_begun:
            return
        self._recorder.stop()
        status = self._recorder.status()
        for dump in status.dumps:
            self._messages.say(f"look at the dump with `opscope summary {dump}`")
        if not status.dumps:
            self._messages.say(
                f"nothing happened that is worth a dump, so {self._directory} is empty"
            )

    def _guarded(self, action: Callable[[], None], otherwise: str) -> None:
        try:
            action()
        except Exception as error:
            self._messages.fail(f"{error} {otherwise}")


def _recordable(record: dict[str, Any]) -> dict[str, bool]:
    return {name: on for name, on in record.items() if name not in ("with_flops", "source_lines")}
