"""The program's steps and what each took, for triggers and the native watch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from opscope import _native
from opscope.torch_api.announced_steps import forget_listener, listen_to_steps

NEVER = (1 << 63) - 1
"""As the number of a step, or as what one takes."""


class StepAlarm(Protocol):
    """Which steps a listener hears of; changed at any time.

    Attributes:
        at: from the step of this number on, every one; at first :data:`NEVER`.
        above_ns: and those that take longer, in nanoseconds; likewise.
        own_above_ns: and those that take longer without waiting for a processor; likewise.
    """

    at: int
    above_ns: int
    own_above_ns: int


class ProgramSteps(Protocol):
    """What there is to know of the program's steps."""

    @property
    def count(self) -> int:
        """That ended so far."""

    @property
    def durations_ns(self) -> list[int]:
        """Of the last 200, oldest first."""

    @property
    def own_durations_ns(self) -> list[int]:
        """Likewise, without what their thread waited for a processor."""

    @property
    def waited_ns(self) -> int | None:
        """The last one's thread for a processor; None where the kernel does not count that."""

    def alarm(self, listener: Callable[[int], None]) -> StepAlarm:
        """Call ``listener`` at the end of steps that the alarm says, on the thread that makes them.

        With what the step took, in nanoseconds; 0 where nobody knows when it began.
        """


class StepClock:
    """Counts steps: announced ones or, until there is one, those of the first optimizer.

    Attributes:
        announced: the program says that a step has ended. Native, as is all that happens then
            unless an alarm is due: where a step uses the caches for itself, every function of
            Python's takes microseconds.
        optimizer_stepped: a hook of torch's; takes the optimizer, and what torch gives besides.
            Native as well, and does nothing any more once the program announces its steps.
    """

    def __init__(self, watch: _native.Watch | None = None) -> None:
        """``watch`` is told of every step."""
        self._counter = _native.StepCounter(watch)
        self.announced: Callable[[], None] = self._counter.announced
        self.optimizer_stepped: Callable[..., None] = self._counter.optimizer_stepped
        self._handle: Any = None
        self._taken = 0

    def begin(self) -> None:
        """Listen to the program."""
        listen_to_steps(self.announced)
        optimizers = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is not None:
            self._handle = register(self.optimizer_stepped)

    def end(self) -> None:
        """Leave nothing behind."""
        forget_listener(self.announced)
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._counter.silence()

    @property
    def count(self) -> int:
        """Steps that ended so far."""
        return self._counter.count

    @property
    def durations_ns(self) -> list[int]:
        """Of the last 200, oldest first."""
        return self._counter.durations_ns

    @property
    def own_durations_ns(self) -> list[int]:
        """Likewise, without what their thread waited for a processor."""
        return self._counter.own_durations_ns

    @property
    def waited_ns(self) -> int | None:
        """The last step's thread for a processor; None where the kernel does not count that."""
        return self._counter.waited_ns

    def alarm(self, listener: Callable[[int], None]) -> StepAlarm:
        """Have ``listener`` called at the end of some steps; see :class:`ProgramSteps`."""
        return self._counter.alarm(listener)

    def take(self) -> tuple[int, list[int]]:
        """How many ended since it was last asked, and what the last ones of them took."""
        count = self._counter.count
        new, self._taken = count - self._taken, count
        return new, self._counter.durations_ns[-new:] if new else []
