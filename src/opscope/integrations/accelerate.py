"""``opscope_training`` for training loops with Hugging Face Accelerate."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from opscope.integrations.session import TrainingSession
from opscope.torch_api.annotate import record_function


@contextlib.contextmanager
def opscope_training(
    accelerator: Any, output_dir: str | os.PathLike[str] = "opscope-training", **options: Any
) -> Iterator[TrainingSession]:
    """Explain at the end of a ``with`` block around a training loop why its steps are slow.

    A step ends when an optimizer has stepped. Backward passes and checkpoints of the accelerator
    are spans; ``session.name("evaluation")`` begins another and ``session.name(None)`` ends it.
    The verdict goes to the accelerator's trackers.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        output_dir: as of :class:`TrainingSession`.
        **options: as of :class:`TrainingSession`.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    session = TrainingSession(output_dir, **options)
    ended = 0

    def step_ended(*_: object) -> None:
        nonlocal ended
        ended += 1
        session.step_ended()

    with contextlib.ExitStack() as undo:
        for method in ("backward", "save_state", "clip_grad_norm_"):
            undo.callback(_name_calls(accelerator, method))
        session.begin()
        undo.callback(register_optimizer_step_post_hook(step_ended).remove)
        try:
            yield session
        finally:
            session.end(getattr(accelerator, "trackers", ()), ended)


def _name_calls(accelerator: Any, method: str) -> Any:
    """Make each call of a method a span; returns a function that undoes it."""
    had_own = method in vars(accelerator)
    before = getattr(accelerator, method)
    setattr(accelerator, method, record_function(f"accelerator.{method}")(before))

    def undo() -> None:
        if had_own:
            setattr(accelerator, method, before)
        else:
            vars(accelerator).pop(method, None)

    return undo
