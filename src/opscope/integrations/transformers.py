"""``OpscopeCallback`` for the Trainer of Hugging Face Transformers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback

from opscope.integrations.session import TrainingSession
from opscope.integrations.trackers import PREFIX, flat_metrics, log_outcome

_LAST_LOG = "train_runtime"
"""Key of the Trainer's last log entry, and of no other."""


class OpscopeCallback(TrainerCallback):
    """Prints at the end of ``trainer.train()`` why its steps are slow, and at which lines.

    After ``OpscopeCallback().attach(trainer)``, ``trainer.state.log_history`` and all trackers of
    the Trainer get the verdict; W&B and MLflow also get the page. Steps, evaluations and
    checkpoints become spans. If it is passed as ``callbacks=`` instead, it runs after the
    reporters, and only W&B and MLflow get the verdict.
    """

    def __init__(self, output_dir: str | os.PathLike[str] | None = None, **options: Any) -> None:
        """See :class:`TrainingSession`; the default folder is ``opscope`` in the Trainer's."""
        self._output_dir, self._options = output_dir, options
        self.session: TrainingSession | None = None

    def attach(self, trainer: Any) -> OpscopeCallback:
        """Add this callback to a Trainer before its reporters, so that they log the verdict."""
        handler: CallbackHandler = trainer.callback_handler
        others = [callback for callback in handler.callbacks if callback is not self]
        # After the Trainer's own callback, which decides on evaluations and checkpoints.
        first = sum(isinstance(callback, DefaultFlowCallback) for callback in others[:1])
        handler.callbacks = [*others[:first], self, *others[first:]]
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start recording."""
        folder = self._output_dir or Path(args.output_dir) / "opscope"
        if self.session is None:  # else an exception ended the previous training
            self.session = TrainingSession(folder, **self._options)
        self.session.begin()
        self.session.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step, and begin the next span."""
        if self.session is None:
            return
        self.session.step_ended()
        self._name_next(control.should_evaluate, control.should_save)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the span of an evaluation."""
        self._name_next(False, control.should_save)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the span of a checkpoint."""
        self._name_next(False, False)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add the verdict to the Trainer's last log entry."""
        if self.session is None or logs is None or _LAST_LOG not in logs:
            return
        outcome = self.session.end(step=state.global_step)
        if outcome is None or not self.session.is_first_rank:
            return
        metrics = {**flat_metrics(outcome), PREFIX + "verdict": "\n".join(outcome.lines)}
        state.log_history.append({**metrics, "step": state.global_step})
        for run in _active_runs():
            log_outcome(run, outcome, state.global_step)
        logs.update(metrics)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording if no last log entry did."""
        if self.session is not None:
            self.session.end(step=state.global_step)

    def _name_next(self, evaluates: bool, saves: bool) -> None:
        if self.session is None:
            return
        if evaluates or saves:
            self.session.name("evaluation" if evaluates else "checkpoint")
        else:
            self.session.step_begins()


def _active_runs() -> list[Any]:
    """Active runs of W&B and MLflow, if the program imported these."""
    wandb, mlflow = sys.modules.get("wandb"), sys.modules.get("mlflow")
    runs = [getattr(wandb, "run", None)]
    if mlflow is not None and mlflow.active_run() is not None:
        runs.append(mlflow)
    return [run for run in runs if run is not None]
