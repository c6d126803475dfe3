"""Memory of the process that grows suddenly."""

from __future__ import annotations

from opscope.base.quantity_text import count_bytes, nanoseconds
from opscope.live.flight.triggers.trigger import Trigger


class MemoryJump(Trigger):
    """Dumps when the process has much more memory resident than a moment ago.

    Looked at ten times a second, by a native thread. For memory of devices use :class:`When`.
    """

    name = "memory jump"
    news = "memory"

    def __init__(self, by: str | int = "1GiB", within: str | float = "10s") -> None:
        """Say how much, in which time.

        Raises:
            UsageError: one of them is no size, or no time.
        """
        self._by_bytes = count_bytes(by, "MemoryJump(by=...)")
        self._within_ns = nanoseconds(within, "MemoryJump(within=...)")

    def settings(self) -> dict[str, int | bool]:
        """What the native thread looks for."""
        return {"memory_jump_bytes": self._by_bytes, "memory_jump_ns": self._within_ns}
