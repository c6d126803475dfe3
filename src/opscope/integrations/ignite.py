"""``OpscopeHandler`` for engines of PyTorch-Ignite."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ignite.engine import Engine, Events

from opscope.integrations.session import TrainingSession


class OpscopeHandler:
    """``OpscopeHandler().attach(trainer)``: prints at the end why iterations are slow.

    Each iteration is a step. ``engine.state.opscope`` has the results too.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] = "opscope-training",
        loggers: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        """``output_dir`` and ``options``: see :class:`TrainingSession`.

        ``loggers``: Ignite's loggers, or trackers as in :func:`log_outcome`.
        """
        self.session = TrainingSession(output_dir, **options)
        self._loggers = list(loggers)

    def attach(self, engine: Engine, *evaluators: Engine) -> OpscopeHandler:
        """Record an engine's runs; runs of ``evaluators`` become spans in them."""
        engine.add_event_handler(Events.STARTED, self._started)
        engine.add_event_handler(Events.GET_BATCH_STARTED, self._step_begins)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self._step_ended)
        engine.add_event_handler(Events.COMPLETED, self._ended)
        engine.add_event_handler(Events.EXCEPTION_RAISED, self._raised)
        for evaluator in evaluators:
            evaluator.add_event_handler(Events.STARTED, lambda _: self.session.name("evaluation"))
            evaluator.add_event_handler(Events.COMPLETED, lambda _: self.session.name(None))
        return self

    def _started(self, engine: Engine) -> None:
        self.session.begin()

    def _step_begins(self, engine: Engine) -> None:
        self.session.step_begins()

    def _step_ended(self, engine: Engine) -> None:
        self.session.step_ended()

    def _ended(self, engine: Engine) -> None:
        engine.state.opscope = self.session.end(self._loggers, engine.state.iteration)

    def _raised(self, engine: Engine, error: BaseException) -> None:
        """End the recording. If no other handler exists, raise the error: Ignite would not."""
        self._ended(engine)
        if len(engine._event_handlers[Events.EXCEPTION_RAISED]) == 1:
            raise error
