"""Find the steps of a program that does not know it is profiled."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from opscope import _native


def after_each_optimizer_step(step: Callable[[], None]) -> None:
    """Call ``step`` each time an optimizer has finished its own ``step()``; torch is imported.

    With several optimizers (as in adversarial training) the one that stepped first sets the beat,
    until it is no longer alive. Optimizers that exist already are not seen.
    """
    from torch.optim import Optimizer

    # Every optimizer class passes its step() through this method when its first instance is made.
    # torch's own hooks (register_optimizer_step_post_hook) run inside the Optimizer.step span, so
    # a step that ends there would end in the middle of that span.
    hook_step = Optimizer.profile_hook_step
    beat = _Beat()

    def ended(optimizer: Any, completed: bool) -> None:
        beat.leave()
        if completed and beat.falls_after(optimizer):
            step()

    def hook_and_count(function: Callable[..., Any]) -> Callable[..., Any]:
        hooked = hook_step(function)
        # No function of Python around it: recordings with stacks would contain that, or, as it is
        # opscope's own, nothing of the step.
        counted: Callable[..., Any] = _native.AroundCall(beat.enter, hooked, ended)
        return functools.update_wrapper(counted, hooked)

    Optimizer.profile_hook_step = staticmethod(hook_and_count)


class _Beat:
    """Which optimizer's outermost steps count (one may call another's, or its base class's)."""

    def __init__(self) -> None:
        self._optimizer: Callable[[], Any] = lambda: None
        self._depth = 0

    def enter(self) -> None:
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1

    def falls_after(self, optimizer: Any) -> bool:
        """Whether the step of ``optimizer`` that just ended is a step of the program."""
        if self._depth > 0:
            return False
        if self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        return self._optimizer() is optimizer
