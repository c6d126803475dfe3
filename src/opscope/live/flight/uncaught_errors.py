"""Triggers: uncaught exceptions, and failed allocations."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from opscope.live.flight.trigger import Trigger, Watched

_ENDS_NORMALLY = (KeyboardInterrupt, SystemExit)


class UncaughtException(Trigger):
    """Dumps when an uncaught exception ends a thread or the program, before Python prints it."""

    name = "uncaught exception"

    def __init__(self) -> None:
        self._watched: Watched | None = None
        self._hooks: list[_Hook] = []

    def begin(self, watched: Watched) -> None:
        """Install hooks for the main thread and for other threads."""
        self._watched = watched
        self._hooks = [
            _Hook(sys, self._on_main_thread),
            _Hook(threading, self._on_other_thread),
        ]

    def end(self) -> None:
        """Restore the previous hooks; a hook that the program's hook calls stays, and forwards."""
        self._watched = None
        for hook in self._hooks:
            hook.leave()
        self._hooks = []

    def is_worth_a_dump(self, error: BaseException) -> bool:
        """Whether this exception makes a dump."""
        return not isinstance(error, _ENDS_NORMALLY) and not is_out_of_memory(error)

    def _on_main_thread(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        self._notice(error, "the main thread")

    def _on_other_thread(self, raised: Any) -> None:
        name = raised.thread.name if raised.thread is not None else "a thread"
        self._notice(raised.exc_value, name)

    def _notice(self, error: BaseException | None, where: str) -> None:
        watched = self._watched
        if watched is not None and error is not None and self.is_worth_a_dump(error):
            watched.dump(f"{_described(error)}, in {where}")


class _Hook:
    """Replaces an ``excepthook`` from one start of a recorder to its stop.

    Each start has its own hook. If the program's hook calls this one, it must call the hook before
    it, not that of a later start, which would call this one again.
    """

    def __init__(self, owner: Any, notice: Callable[..., None]) -> None:
        self._owner, self._before = owner, owner.excepthook
        self._notice: Callable[..., None] | None = notice
        owner.excepthook = self

    def leave(self) -> None:
        """Restore the previous hook; if a later hook calls this one, only forward."""
        self._notice = None
        if self._owner.excepthook is self:
            self._owner.excepthook = self._before

    def __call__(self, *raised: Any) -> None:
        if self._notice is not None:
            with contextlib.suppress(Exception):  # the previous hook must be called anyway
                self._notice(*raised)
        self._before(*raised)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an allocation of torch or Python failed."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "OutOfMemoryError", None)
    if kind is not None and isinstance(error, kind):
        return True
    text = _text_of(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: " in text


def _described(error: BaseException) -> str:
    lines = _text_of(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _text_of(error: BaseException) -> str:
    """Text of the error; empty if the program's ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return ""


_active: list[OutOfMemory] = []
"""Active triggers. torch cannot remove observers, so opscope adds one, which reads this list."""
_is_attached = False


class OutOfMemory(UncaughtException):
    """Dumps when an allocation fails.

    On CUDA devices even if the program catches the error; on the CPU only if it does not.
    """

    name = "out of memory"

    def begin(self, watched: Watched) -> None:
        """Watch for uncaught errors, and for failed allocations on CUDA devices."""
        super().begin(watched)
        _active.append(self)
        _attach_observer()

    def end(self) -> None:
        """Stop watching."""
        super().end()
        if self in _active:
            _active.remove(self)

    def is_worth_a_dump(self, error: BaseException) -> bool:
        """Whether the exception is a failed allocation."""
        return is_out_of_memory(error)

    def device_is_full(self, device: int, requested_bytes: int) -> None:
        """Request a dump for a failed allocation on a CUDA device; called on its thread."""
        if self._watched is not None:
            mebibytes = requested_bytes / (1 << 20)
            self._watched.dump(f"cuda:{device} could not allocate {mebibytes:,.0f} MiB")


def _attach_observer() -> None:
    global _is_attached
    torch: Any = sys.modules.get("torch")
    attach = getattr(getattr(torch, "_C", None), "_cuda_attach_out_of_memory_observer", None)
    if _is_attached or attach is None or not torch.cuda.is_initialized():
        return
    attach(_observed)
    _is_attached = True


def _observed(device: int, requested_bytes: int, *_: int) -> None:
    for trigger in list(_active):
        trigger.device_is_full(device, requested_bytes)
