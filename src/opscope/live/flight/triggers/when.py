"""A condition of the program's own."""

from __future__ import annotations

from collections.abc import Callable

from opscope.base.quantity_text import nanoseconds
from opscope.errors import UsageError
from opscope.live.flight.triggers.trigger import Trigger


class When(Trigger):
    """Dumps when ``condition()`` says so, asked every ``every`` on a thread of its own.

    A condition that waits is asked again when it has returned, and nothing else waits for it.

    It is true from one dump until it has been false: a condition that stays true is one dump.
    """

    def __init__(
        self, condition: Callable[[], object], every: str | float = "1s", name: str = "condition"
    ) -> None:
        """Give the condition.

        Args:
            condition: returns something false, or something true: a text of it goes into the dump.
            every: how often it is asked.
            name: what dumps call it.

        Raises:
            UsageError: it cannot be called, or ``every`` is no time.
        """
        if not callable(condition):
            raise UsageError(f"When({condition!r}) cannot be called. Give a function.")
        self.name = name
        self.every_s = nanoseconds(every, "When(every=...)") / 1e9
        self._condition = condition
        self._was_true = False

    def look(self) -> str | None:
        """Ask it."""
        result = self._condition()
        is_new, self._was_true = bool(result) and not self._was_true, bool(result)
        return (result if isinstance(result, str) else "it became true") if is_new else None
