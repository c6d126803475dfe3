"""A program that stands still."""

from __future__ import annotations

from opscope.base.quantity_text import nanoseconds
from opscope.live.flight.triggers.trigger import Trigger


class Hang(Trigger):
    """Dumps once when no step ends for a while, with the Python stack of every thread.

    It is seen by a native thread that needs no GIL. While the GIL is held, that thread writes the
    dump too. One dump for a standstill; the next takes a step in between.
    """

    name = "hang"
    news = "standstill"

    def __init__(self, after: str | float = "120s", without_steps: bool = False) -> None:
        """Say what standing still is.

        Args:
            after: so long without a step.
            without_steps: also in a program that makes none: so long without any event. Not for
                programs that may have nothing to do, such as servers and notebooks.

        Raises:
            UsageError: ``after`` is no time.
        """
        self._after_ns = nanoseconds(after, "Hang(after=...)")
        self._without_steps = without_steps

    def settings(self) -> dict[str, int | bool]:
        """What the native thread looks for."""
        return {"standstill_ns": self._after_ns, "needs_steps": not self._without_steps}
