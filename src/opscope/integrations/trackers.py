"""Logs the verdict to experiment trackers: numbers, text and page."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from opscope.base.notice import notice
from opscope.torch_api.hosted_recording import HostedOutcome

PREFIX = "opscope/"


def flat_metrics(outcome: HostedOutcome) -> dict[str, float]:
    """The verdict's numbers, by their names in trackers."""
    return {PREFIX + name: value for name, value in outcome.metrics.items()}


def log_outcome(tracker: Any, outcome: HostedOutcome, step: int | None = None) -> bool:
    """Log numbers, text and page to ``tracker``; print errors of the tracker.

    Args:
        tracker: a ``SummaryWriter`` of TensorBoard, a run of W&B, the module ``mlflow``, a tuple
            ``(MlflowClient, run id)``, or a logger of Lightning or tracker of Accelerate that has
            one of these.
        outcome: result of :meth:`TrainingSession.end`.
        step: step of the training.

    Returns:
        Whether the tracker is of a known kind.
    """
    log = _log_function(tracker)
    if log is None:
        return False
    try:
        log(outcome, step)
    except Exception as error:  # trackers raise errors of many classes
        notice(f"the verdict was not logged to {type(tracker).__name__}: {error}")
    return True


def _log_function(tracker: Any) -> Callable[[HostedOutcome, int | None], None] | None:
    if isinstance(tracker, tuple) and len(tracker) == 2:
        return _Mlflow(*tracker).log
    if getattr(tracker, "__name__", "") == "mlflow":
        run = tracker.active_run() or tracker.last_active_run()
        return None if run is None else _Mlflow(tracker.MlflowClient(), run.info.run_id).log
    if hasattr(tracker, "run_id") and hasattr(tracker, "_mlflow_client"):  # Lightning's
        return _Mlflow(tracker._mlflow_client, tracker.run_id).log
    if hasattr(tracker, "add_scalar") and hasattr(tracker, "add_text"):
        return _TensorBoard(tracker).log
    if type(tracker).__module__.startswith("wandb"):
        return _Wandb(tracker).log
    for inner in ("experiment", "tracker", "writer"):
        with contextlib.suppress(Exception):  # the property may connect to a server
            wrapped = getattr(tracker, inner, None)
            if wrapped is not None and wrapped is not tracker and not callable(wrapped):
                return _log_function(wrapped)
    return None


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, outcome: HostedOutcome, step: int | None) -> None:
        for name, value in flat_metrics(outcome).items():
            self._writer.add_scalar(name, value, step)
        lines = [f"    {line}" for line in (*outcome.lines, f"report: {outcome.report}")]
        self._writer.add_text(PREFIX + "verdict", "\n\n".join(lines), step)
        self._writer.flush()


class _Wandb:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, outcome: HostedOutcome, step: int | None) -> None:
        # Numbers and text go to the run's summary.
        import wandb

        self._run.summary.update(flat_metrics(outcome))
        self._run.summary[PREFIX + "verdict"] = "\n".join(outcome.lines)
        page = {} if outcome.report is None else {PREFIX + "report": wandb.Html(outcome.report)}
        self._run.log({**flat_metrics(outcome), **page})


class _Mlflow:
    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    def log(self, outcome: HostedOutcome, step: int | None) -> None:
        for name, value in flat_metrics(outcome).items():
            self._client.log_metric(self._run_id, name, value, step=step or 0)
        text = "\n".join(outcome.lines)
        self._client.log_text(self._run_id, text, PREFIX + "verdict.txt")
        if outcome.report is not None:
            self._client.log_artifact(self._run_id, str(outcome.report), PREFIX.rstrip("/"))
