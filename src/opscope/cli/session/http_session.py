"""``opscope run --http``: records the program when an HTTP request starts a recording."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.cli.views.console import Messages
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.streams.keeper import dismiss_keepers
from opscope.serve.http_server import address_of, listen
from opscope.torch_api.drop_in.install import install_and_answer
from opscope.torch_api.steps import after_each_optimizer_step

if TYPE_CHECKING:
    from opscope.cli.session.flight_session import FlightSession


class HttpSession:
    """Listens during the whole program, beside a flight recorder if there is one.

    The port is that of ``address`` plus the rank of this process.
    """

    def __init__(
        self, address: str, root: Path, messages: Messages, flight: FlightSession | None
    ) -> None:
        """Listen.

        Raises:
            UsageError: the address is invalid.
            ReachError: the address cannot be used.
        """
        host, port = address_of(address)
        if port:
            port += launched_rank() or 0
        shown = f"[{host}]" if ":" in host else host
        self._server = listen(f"{shown}:{port}", root)
        self._flight, self._messages = flight, messages
        messages.say(
            f"listening at http://{shown}:{self._server.port}: POST /start_profile and "
            f"/stop_profile, GET /verdict; recordings go to {root}"
        )

    def begin(self) -> None:
        """Start to count steps; called when torch is imported."""
        self._messages.attempt(self._begin, "Steps are not counted.")
        if self._flight is not None:
            self._flight.begin()

    def finish(self) -> None:
        """Stop listening; another process writes a running recording."""
        self._messages.attempt(self._finish, "The last recording may be lost.")
        if self._flight is not None:
            self._flight.finish()

    def _begin(self) -> None:
        if self._flight is None and os.environ.get("OPSCOPE_DROP_IN") != "0":
            install_and_answer()
        after_each_optimizer_step(self._server.control.step_ended)

    def _finish(self) -> None:
        self._server.stop()
        self._server.control.finish()
        dismiss_keepers()
