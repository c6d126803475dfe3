"""An exception that nobody catches, on any thread; a lack of memory has a name of its own."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

from opscope.flight.triggers.trigger import Trigger, Watched

_ENDS_NORMALLY = (KeyboardInterrupt, SystemExit)


class UncaughtException(Trigger):
    """Dumps before Python says on standard error that a thread, or the program, ends by one."""

    name = "uncaught exception"

    def __init__(self) -> None:
        self._watched: Watched | None = None
        self._hooks: dict[Any, tuple[Any, Any]] = {}

    def begin(self, watched: Watched) -> None:
        """Stand before the hooks of the main thread and of the others."""
        self._watched = watched
        self._stand_before(sys, self._on_main_thread)
        self._stand_before(threading, self._on_other_thread)

    def end(self) -> None:
        """Leave their place, where nobody stands before us: else we only hand on from now on."""
        self._watched = None
        for owner, (before, ours) in self._hooks.items():
            if owner.excepthook is ours:
                owner.excepthook = before

    def is_meant(self, error: BaseException) -> bool:
        """Whether this one is worth a dump."""
        return not isinstance(error, _ENDS_NORMALLY) and not is_out_of_memory(error)

    def _stand_before(self, owner: Any, ours: Any) -> None:
        self._hooks[owner] = (owner.excepthook, ours)
        owner.excepthook = ours

    def _on_main_thread(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        self._notice(error, "the main thread")
        self._hooks[sys][0](kind, error, traceback)

    def _on_other_thread(self, raised: Any) -> None:
        name = raised.thread.name if raised.thread is not None else "a thread"
        self._notice(raised.exc_value, name)
        self._hooks[threading][0](raised)

    def _notice(self, error: BaseException | None, where: str) -> None:
        watched = self._watched
        if watched is not None and error is not None and self.is_meant(error):
            watched.dump(f"{_described(error)}, in {where}")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an allocation of torch's, or Python's own, has failed."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "OutOfMemoryError", None)
    if kind is not None and isinstance(error, kind):
        return True
    said = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: " in said


def _described(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
