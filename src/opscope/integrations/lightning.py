"""``OpscopeProfiler`` and ``VerdictCallback`` for the Trainer of Lightning."""

from __future__ import annotations

import os
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.profilers import Profiler
except ModuleNotFoundError:  # Lightning's older name
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.profilers import Profiler

from opscope.integrations.session import TrainingSession
from opscope.torch_api.annotate import record_function

_DEFAULT = "opscope-training"


class OpscopeProfiler(Profiler):
    """``Trainer(profiler=OpscopeProfiler())``: Lightning's actions become spans.

    With :class:`VerdictCallback`, Lightning prints the verdict at the end as the profiler's
    summary; without it, the spans only appear in other recordings.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, record_function]] = []
        self.session: TrainingSession | None = None

    def start(self, action_name: str) -> None:
        """Begin an action."""
        span = record_function(action_name)
        span.__enter__()
        self._open.append((action_name, span))

    def stop(self, action_name: str) -> None:
        """End an action, and inner actions that an exception left open."""
        while any(name == action_name for name, _ in self._open):
            name, span = self._open.pop()
            span.__exit__(None, None, None)
            if name == action_name:
                return

    def summary(self) -> str:
        """The verdict, which Lightning prints."""
        outcome = None if self.session is None else self.session.outcome
        return "" if outcome is None else "\n".join(outcome.lines)


class VerdictCallback(Callback):
    """Prints why the steps of ``trainer.fit()`` are slow, at its end or after an exception.

    The Trainer's loggers log the verdict: numbers, text, and the report if the logger supports it.
    """

    def __init__(self, output_dir: str | os.PathLike[str] = _DEFAULT, **options: Any) -> None:
        """``output_dir`` and ``options``: see :class:`TrainingSession`."""
        self.session = TrainingSession(output_dir, **options)
        self._steps = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start recording."""
        if isinstance(trainer.profiler, OpscopeProfiler):
            trainer.profiler.session = self.session
        self.session.begin()
        self._steps = trainer.global_step

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step if an optimizer stepped; batches that only accumulate gradients end none."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self.session.step_ended()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the span ``evaluation``."""
        self.session.name("evaluation")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End the span ``evaluation``."""
        self.session.name(None)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Print and log the verdict."""
        self.session.end(trainer.loggers, trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Print and log the verdict on the recording so far."""
        self.session.end(trainer.loggers, trainer.global_step)
