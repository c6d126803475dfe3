"""The program's steps and what each took, for triggers and the native watch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from opscope import _native
from opscope.torch_api.announced_steps import forget_listener, listen_to_steps

NEVER = (1 << 63) - 1
"""As the number of a step, or as what one takes."""


class StepClock:
    """Counts steps: announced ones or, until there is one, those of the first optimizer.

    Attributes:
        counter: what there is to know of them.
        announced: the program says that a step has ended. Native, as is all that happens then
            unless an alarm is due: where a step uses the caches for itself, every function of
            Python's takes microseconds.
        optimizer_stepped: a hook of torch's; takes the optimizer, and what torch gives besides.
            Native as well, and does nothing any more once the program announces its steps.
    """

    def __init__(self, watch: _native.Watch | None = None) -> None:
        """``watch`` is told of every step."""
        self.counter = _native.StepCounter(watch)
        self.announced: Callable[[], None] = self.counter.announced
        self.optimizer_stepped: Callable[..., None] = self.counter.optimizer_stepped
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
        self.counter.silence()

    def take(self) -> tuple[int, list[int]]:
        """How many ended since it was last asked, and what the last ones of them took."""
        count = self.counter.count
        new, self._taken = count - self._taken, count
        return new, self.counter.durations_ns[-new:] if new else []
