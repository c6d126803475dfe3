"""The program's steps while it runs: announced ones, and those of optimizers."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

from opscope import _native

_listeners: tuple[Callable[[], object], ...] = ()


def announce_step() -> None:
    """A step of the program has ended. Listeners raise nothing."""
    for listener in _listeners:
        listener()


def listen_to_steps(listener: Callable[[], object]) -> None:
    """Call ``listener`` at every announced step, on the thread that makes it."""
    global _listeners
    _listeners = (*_listeners, listener)


def forget_listener(listener: Callable[[], object]) -> None:
    """Call it no more."""
    global _listeners
    _listeners = tuple(one for one in _listeners if one != listener)


NEVER = (1 << 63) - 1
"""As the number of a step, or as what one takes."""


class StepClock:
    """Counts steps: announced ones or, until there is one, those of the first optimizer.

    Attributes:
        counter: the source of their numbers and durations.
        announced: the program says that a step has ended. Native, as is all that happens then
            unless an alarm is due: where a step uses the caches for itself, every function of
            Python's takes microseconds.
        optimizer_stepped: a hook of torch's; takes the optimizer, and what torch gives besides.
            Native as well, and does nothing any more once the program announces its steps.
    """

    def __init__(self, watch: _native.Watch | None = None) -> None:
        """``watch`` sees every step."""
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


def after_each_optimizer_step(step: Callable[[], None]) -> None:
    """Call ``step`` each time an optimizer has finished its own ``step()``; torch is imported.

    With several optimizers (as in adversarial training) the one that stepped first sets the beat,
    until it is no longer alive. Optimizers that exist already are not seen, but those that a forked
    child has from its parent are. A process has one such function: a later call replaces it, and
    steps of a forked child are not its parent's.
    """
    global _beat
    _beat = _Beat(step)
    from torch.optim import Optimizer

    if not getattr(Optimizer.profile_hook_step, _MARK, False):
        Optimizer.profile_hook_step = staticmethod(_hooking(Optimizer.profile_hook_step))


def _hooking(hook_step: Callable[..., Any]) -> Callable[..., Any]:
    # Every optimizer class passes its step() through this method when its first instance is made.
    # torch's own hooks (register_optimizer_step_post_hook) run inside the Optimizer.step span, so
    # a step that ends there would end in the middle of that span.
    def hook_and_count(function: Callable[..., Any]) -> Callable[..., Any]:
        hooked = hook_step(function)
        # No function of Python around it: recordings with stacks would contain that, or, as it is
        # opscope's own, nothing of the step.
        counted: Callable[..., Any] = _native.AroundCall(_enter, hooked, _ended)
        return functools.update_wrapper(counted, hooked)

    setattr(hook_and_count, _MARK, True)
    return hook_and_count


class _Beat:
    """Which optimizer's outermost steps count (one may call another's, or its base class's)."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step, self._process = step, os.getpid()
        self._optimizer: Callable[[], Any] = lambda: None
        self._depth = 0

    def enter(self) -> None:
        self._depth += 1

    def ended(self, optimizer: Any, completed: bool) -> None:
        self._depth = max(self._depth - 1, 0)  # it may have begun before this did
        if completed and self._falls_after(optimizer) and os.getpid() == self._process:
            self._step()

    def _falls_after(self, optimizer: Any) -> bool:
        """Whether the step of ``optimizer`` that just ended is a step of the program."""
        if self._depth > 0:
            return False
        if self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        return self._optimizer() is optimizer


_MARK = "_opscope_counts_steps"
_beat = _Beat(lambda: None)


def _enter() -> None:
    _beat.enter()


def _ended(optimizer: Any, completed: bool) -> None:
    _beat.ended(optimizer, completed)
