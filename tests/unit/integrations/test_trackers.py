"""Verdicts in trackers of experiments: what each is given."""

from pathlib import Path

import pytest

from opscope.integrations.trackers import log_outcome
from opscope.torch_api.hosted_recording import HostedOutcome


@pytest.fixture
def outcome(tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<!doctype html><title>page</title>")
    said = {"lines": ["verdict: slow: data loading", "why: \x1b[1m"], "metrics": {"step_ms": 2.5}}
    return HostedOutcome(tmp_path / "trace.opscope", report, said)


def test_tensorboard(outcome, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path / "runs") as writer:
        assert log_outcome(writer, outcome, 7)
    events = EventAccumulator(str(tmp_path / "runs")).Reload()
    (point,) = events.Scalars("opscope/step_ms")
    assert (point.step, point.value) == (7, 2.5)
    (text,) = events.Tensors("opscope/verdict/text_summary")
    assert b"slow: data loading" in text.tensor_proto.string_val[0]


def test_mlflow_in_a_folder(outcome, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        assert log_outcome(mlflow, outcome)
    kept = mlflow.MlflowClient().get_run(run.info.run_id)
    assert kept.data.metrics["opscope/step_ms"] == 2.5
    folder = Path(kept.info.artifact_uri.removeprefix("file://")) / "opscope"
    assert {path.name for path in folder.iterdir()} == {"verdict.txt", "report.html"}


def test_wandb_without_a_network(outcome, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = wandb.init(project="tests", dir=tmp_path, settings=wandb.Settings(silent=True))
    try:
        assert log_outcome(run, outcome)
        assert run.summary["opscope/step_ms"] == 2.5
        assert "data loading" in run.summary["opscope/verdict"]
    finally:
        run.finish()
    assert [*tmp_path.rglob("report*.html")]


def test_a_tracker_that_fails_is_no_error(outcome, capsys):
    class Broken:
        def add_scalar(self, *arguments):
            raise ConnectionError("no server")

        add_text = add_scalar

    assert log_outcome(Broken(), outcome)
    assert "no server" in capsys.readouterr().err


def test_a_logger_is_taken_for_what_it_holds(outcome):
    logged = {}

    class Writer:
        def add_scalar(self, name, value, step):
            logged[name] = value

        def add_text(self, name, text, step):
            logged[name] = text

        def flush(self):
            pass

    class Logger:
        experiment = Writer()

    assert log_outcome(Logger(), outcome)
    assert set(logged) == {"opscope/step_ms", "opscope/verdict"}


@pytest.mark.parametrize("other", [None, 5, object(), {}, (1, 2, 3)])
def test_others_are_left_alone(outcome, other):
    assert not log_outcome(other, outcome)
