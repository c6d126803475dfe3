"""The program's steps and what each took, for triggers, the governor and the native watch."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from opscope.announced_steps import forget_listener, listen_to_steps

_REMEMBERED = 200


class StepClock:
    """Counts steps: announced ones or, until there is one, those of the first optimizer."""

    def __init__(self, ended: Callable[[], None]) -> None:
        """``ended`` is called at every step, with no lock held and nothing allocated."""
        self._ended = ended
        self._listeners: tuple[Callable[[int], None], ...] = ()
        self._last_ns = 0
        self._is_announced = False
        self._optimizer: Callable[[], Any] = lambda: None
        self._handle: Any = None
        self.count = 0
        self.durations_ns: deque[int] = deque(maxlen=_REMEMBERED)

    def begin(self) -> None:
        """Listen to the program."""
        listen_to_steps(self.announced)
        optimizers = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is not None:
            self._handle = register(self._optimizer_stepped)

    def end(self) -> None:
        """Leave nothing behind."""
        forget_listener(self.announced)
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._listeners = ()

    def on_step(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with what each step took, in nanoseconds."""
        self._listeners = (*self._listeners, listener)

    def announced(self) -> None:
        """The program says that a step has ended."""
        if not self._is_announced:
            self._is_announced, self._last_ns = True, 0
        self._step_ended()

    def _optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        if self._is_announced:
            return
        beat = self._optimizer()
        if beat is None:
            self._optimizer = weakref.ref(optimizer)
        elif beat is not optimizer:
            return
        self._step_ended()

    def _step_ended(self) -> None:
        now_ns = time.perf_counter_ns()
        self._ended()
        self.count += 1
        last_ns, self._last_ns = self._last_ns, now_ns
        if not last_ns:
            return
        self.durations_ns.append(now_ns - last_ns)
        for listener in self._listeners:
            listener(now_ns - last_ns)
