"""No memory left: torch's OutOfMemoryError, and what the CPU's allocator raises."""

from __future__ import annotations

import sys
from typing import Any

from opscope.live.flight.triggers.trigger import Watched
from opscope.live.flight.triggers.uncaught import UncaughtException, is_out_of_memory

_observing: list[OutOfMemory] = []
"""Those that are on. torch never forgets an observer, so it is given one, which asks here."""
_is_attached = False


class OutOfMemory(UncaughtException):
    """Dumps when memory could not be had.

    Of CUDA devices it hears at once, whether or not the program catches the error. Of the CPU it
    hears when nobody does.
    """

    name = "out of memory"

    def begin(self, watched: Watched) -> None:
        """Hear of uncaught ones, and of CUDA's own."""
        super().begin(watched)
        _observing.append(self)
        _attach()

    def end(self) -> None:
        """Hear of none."""
        super().end()
        if self in _observing:
            _observing.remove(self)

    def is_meant(self, error: BaseException) -> bool:
        """Those alone."""
        return is_out_of_memory(error)

    def device_is_full(self, device: int, asked_bytes: int) -> None:
        """An allocation on a CUDA device has failed; on the thread that asked."""
        if self._watched is not None:
            mebibytes = asked_bytes / (1 << 20)
            self._watched.dump(f"cuda:{device} could not allocate {mebibytes:,.0f} MiB")


def _attach() -> None:
    global _is_attached
    torch: Any = sys.modules.get("torch")
    attach = getattr(getattr(torch, "_C", None), "_cuda_attach_out_of_memory_observer", None)
    if _is_attached or attach is None or not torch.cuda.is_initialized():
        return
    attach(_observed)
    _is_attached = True


def _observed(device: int, asked_bytes: int, *_: int) -> None:
    for trigger in list(_observing):
        trigger.device_is_full(device, asked_bytes)
