"""The steps of a running program: announced steps, and those of optimizers."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import opscope._native as _native

_listeners: tuple[Callable[[], object], ...] = ()


def announce_step() -> None:
    """Call the listeners at the end of a step of the program. They raise nothing."""
    for listener in _listeners:
        listener()


def listen_to_steps(listener: Callable[[], object]) -> None:
    """Call ``listener`` at every announced step, on the thread that announces it."""
    global _listeners
    _listeners = (*_listeners, listener)


def forget_listener(listener: Callable[[], object]) -> None:
    """Stop calling a listener."""
    global _listeners
    _listeners = tuple(other for other in _listeners if other != listener)


NEVER = (1 << 63) - 1  # larger than any step number or duration


class StepClock:
    """Counts steps: announced ones, or those of the first optimizer until one is announced.

    Attributes:
        counter: numbers and durations of steps.
        announced: the program calls it at the end of a step. It is native, and calls only native
            code unless an alarm is due: with caches full of the step's data, each Python function
            takes microseconds.
        optimizer_stepped: a torch hook; takes the optimizer and torch's further arguments. Native;
            no effect after the program has announced a step.
    """

    def __init__(self, watch: _native.Watch | None = None) -> None:
        """``watch`` receives every step."""
        self.counter = _native.StepCounter(watch)
        self.announced: Callable[[], None] = self.counter.announced
        self.optimizer_stepped: Callable[..., None] = self.counter.optimizer_stepped
        self._handle: Any = None
        self._count_taken = 0

    def begin(self) -> None:
        """Start counting."""
        listen_to_steps(self.announced)
        optimizers = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is not None:
            self._handle = register(self.optimizer_stepped)

    def end(self) -> None:
        """Stop counting, and remove the hooks."""
        forget_listener(self.announced)
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self.counter.silence()

    def take(self) -> tuple[int, list[int]]:
        """Number of steps since the last call, and durations of the latest ones in nanoseconds."""
        count = self.counter.count
        new, self._count_taken = count - self._count_taken, count
        return new, self.counter.durations_ns[-new:] if new else []


def after_each_optimizer_step(step: Callable[[], None]) -> None:
    """Call ``step`` after each ``step()`` of an optimizer; torch must be imported.

    With several optimizers (as in adversarial training), only the first to step counts, while it is
    alive. Existing optimizers are not hooked, except those that a forked child has from its parent.
    A process has one such function: a later call replaces it; a forked child does not call it.
    """
    global _step_selector
    _step_selector = _StepSelector(step)
    from torch.optim import Optimizer

    if not getattr(Optimizer.profile_hook_step, _MARK, False):
        Optimizer.profile_hook_step = staticmethod(_hooking(Optimizer.profile_hook_step))


def _hooking(hook_step: Callable[..., Any]) -> Callable[..., Any]:
    # torch passes the step() of every optimizer class to this method at its first instance. Hooks
    # of register_optimizer_step_post_hook run inside the Optimizer.step span, so a step would end
    # in the middle of that span.
    def hook_and_count(function: Callable[..., Any]) -> Callable[..., Any]:
        hooked = hook_step(function)
        # No Python function around it: recordings with stacks would contain it or, because it is
        # opscope's, omit the step.
        counted: Callable[..., Any] = _native.AroundCall(_enter, hooked, _ended)
        return functools.update_wrapper(counted, hooked)

    setattr(hook_and_count, _MARK, True)
    return hook_and_count


class _StepSelector:
    """Selects the optimizer whose outermost steps count (a step may call another optimizer's)."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step, self._process = step, os.getpid()
        self._optimizer: Callable[[], Any] = lambda: None
        self._depth = 0

    def enter(self) -> None:
        self._depth += 1

    def ended(self, optimizer: Any, completed: bool) -> None:
        self._depth = max(self._depth - 1, 0)  # the step may have begun before this object
        if completed and self._ends_step(optimizer) and os.getpid() == self._process:
            self._step()

    def _ends_step(self, optimizer: Any) -> bool:
        """Whether the finished step of ``optimizer`` is a step of the program."""
        if self._depth > 0:
            return False
        if self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        return self._optimizer() is optimizer


_MARK = "_opscope_counts_steps"
_step_selector = _StepSelector(lambda: None)


def _enter() -> None:
    _step_selector.enter()


def _ended(optimizer: Any, completed: bool) -> None:
    _step_selector.ended(optimizer, completed)
