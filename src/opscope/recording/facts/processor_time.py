"""How long the thread that opens a window computes in it, and how long it waits for a processor.

On a busy machine a thread that could run waits until others have had their turn. Linux counts that
time for every thread; without it nobody could tell a slow program from a busy machine.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from opscope.columns.ledger import COMPUTED, WAITED
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener


class ProcessorTime(Listener):
    """The difference of the kernel's counts; nothing where it keeps none."""

    def __init__(self) -> None:
        self._thread = 0
        self._began: tuple[int, int] | None = None
        self._ended: tuple[int, int] | None = None

    def begin(self) -> None:
        """Read the counts of this thread."""
        self._thread = threading.get_native_id()
        self._began = processor_counts(self._thread)

    def before_end(self) -> None:
        """Read them again, from whichever thread it is now."""
        self._ended = processor_counts(self._thread)

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``processor``."""
        if self._began is None or self._ended is None:
            return decoded
        computed, waited = (max(b - a, 0) for a, b in zip(self._began, self._ended, strict=True))
        return replace(decoded, processor={COMPUTED: computed, WAITED: waited})

    def known_of_window(self) -> Any:
        """Both counts."""
        return self._began, self._ended

    def learn_of_window(self, known: Any) -> None:
        """Those."""
        began, ended = known
        self._began = None if began is None else (int(began[0]), int(began[1]))
        self._ended = None if ended is None else (int(ended[0]), int(ended[1]))


def processor_counts(thread: int) -> tuple[int, int] | None:
    """Nanoseconds on a processor, and waiting for one; None where they are not counted."""
    try:
        # Not as text: its codec may be imported then, and a forked child must not wait for that.
        with open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0) as file:
            fields = file.read().split()
        computed, waited = int(fields[0]), int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
    return computed, waited
