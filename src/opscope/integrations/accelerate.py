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
    """Record a training loop in a ``with`` block; at its end, print why its steps are slow.

    ``Optimizer.step`` ends a step. Backward passes, gradient clipping and checkpoints of the
    accelerator become spans; ``session.name("evaluation")`` begins another span and
    ``session.name(None)`` ends it. The accelerator's trackers log the verdict.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        output_dir: as of :class:`TrainingSession`.
        **options: as of :class:`TrainingSession`.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    session = TrainingSession(output_dir, **options)
    step_count = 0

    def step_ended(*_: object) -> None:
        nonlocal step_count
        step_count += 1
        session.step_ended()

    with contextlib.ExitStack() as undo:
        for method in ("backward", "save_state", "clip_grad_norm_"):
            undo.callback(_record_calls(accelerator, method))
        session.begin()
        undo.callback(register_optimizer_step_post_hook(step_ended).remove)
        try:
            yield session
        finally:
            session.end(getattr(accelerator, "trackers", ()), step_count)


def _record_calls(accelerator: Any, method: str) -> Any:
    """Make each call of a method a span; returns a function that undoes it."""
    was_set = method in vars(accelerator)
    original = getattr(accelerator, method)
    setattr(accelerator, method, record_function(f"accelerator.{method}")(original))

    def undo() -> None:
        if was_set:
            setattr(accelerator, method, original)
        else:
            vars(accelerator).pop(method, None)

    return undo
