"""Callbacks of training frameworks: the verdict in their log names a planted fault's line."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

import opscope
from opscope.integrations.session import TrainingSession
from support.gloo_jobs import run_ranks
from support.planted_faults import planted
from support.processes import wait_until
from support.torch_processes import run_torch


def need(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (see requirements/clients.txt)")


def named(line, text):
    """Whether the verdict says where the fault is."""
    assert "verdict: slow" in text, text
    assert any(f"planted_faults.py:{near}" in text for near in (line, line - 1)), (line, text)


def loop(network, samples, ended, begins=lambda: None, epochs=2):
    """Training by hand; in ``ended`` a step has."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(epochs):
        for batch in DataLoader(samples, batch_size=8):
            begins()
            network(**batch)["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            ended()


def test_a_session_by_itself(tmp_path, capfd):
    network, samples, line = planted("parts")
    session = TrainingSession(tmp_path / "out")
    session.begin()
    loop(network, samples, session.step_ended)
    outcome = session.end()

    named(line, "\n".join(outcome.lines))
    assert outcome.metrics["step_ms"] > 0 and outcome.report.exists()
    assert session.end() is outcome
    assert "opscope: verdict:" in capfd.readouterr().err
    assert len(opscope.load(outcome.trace).steps()) >= 5


def test_steps_are_sampled_now_and_then(tmp_path):
    network, samples, _ = planted("loading")
    session = TrainingSession(tmp_path / "out", every=0.001, flight=None)
    session.begin()
    loop(network, samples, session.step_ended, epochs=4)
    session.end()
    folders = (tmp_path / "out").glob("step-*")
    *sampled, _ = sorted(folders, key=lambda one: int(one.name[5:]))  # the last has what is left
    assert sampled
    wait_until(lambda: all((folder / "verdict.json").exists() for folder in sampled))
    assert all(len(opscope.load(one / "trace.opscope").steps()) for one in sampled)


def test_a_session_is_used_again_after_an_exception(tmp_path):
    session = TrainingSession(tmp_path / "out", flight=None)
    for steps in (3, 40):
        session.begin()
        network, samples, _ = planted("items")
        for _ in range(steps):
            session.step_begins()
            network(**next(iter(DataLoader(samples, batch_size=4))))["loss"].backward()
            session.step_ended()
    outcome = session.end()
    assert outcome.verdict["events"] > 0


def test_a_program_that_an_exception_ends_says_why_it_was_slow(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RAISES)
    done = run_torch(script, Path(__file__).parents[1], cwd=tmp_path)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    named(planted("items")[2], done.stderr)
    assert (tmp_path / "opscope-training/verdict.json").exists()


RAISES = """
import sys
sys.path.insert(0, sys.argv[1])
from torch.utils.data import DataLoader
from opscope.integrations.session import TrainingSession
from support.planted_faults import planted
network, samples, _ = planted("items")
session = TrainingSession(flight=None)
session.begin()
for number, batch in enumerate(DataLoader(samples, batch_size=8)):
    session.step_begins()
    network(**batch)["loss"].backward()
    session.step_ended()
    1 / (number - 15)
"""


def test_a_training_without_a_step_is_no_error(tmp_path):
    session = TrainingSession(tmp_path / "out", flight=None)
    assert session.end() is None
    session.begin()
    torch.ones(3).add(1)
    assert session.end().lines


@pytest.mark.slow
def test_transformers(tmp_path):
    need("transformers")
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from opscope.integrations.transformers import OpscopeCallback

    class Reporter(TrainerCallback):
        logged = {}

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.logged.update(logs)

    network, samples, line = planted("loading")
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        num_train_epochs=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        remove_unused_columns=False,
    )
    reporter = Reporter()
    trainer = Trainer(
        network,
        arguments,
        train_dataset=samples,
        eval_dataset=samples,
        callbacks=[reporter],
    )
    OpscopeCallback().attach(trainer)
    trainer.train()

    (last,) = [one for one in trainer.state.log_history if "opscope/verdict" in one]
    named(line, last["opscope/verdict"])
    named(line, reporter.logged["opscope/verdict"])
    assert reporter.logged["opscope/step_ms"] > 0
    assert (tmp_path / "opscope/report.html").exists()
    # It resumes, with a callback that was given to the Trainer.
    arguments.num_train_epochs = 3
    trainer = Trainer(
        network,
        arguments,
        train_dataset=samples,
        callbacks=[OpscopeCallback(flight=None)],
        eval_dataset=samples,
    )
    trainer.train(resume_from_checkpoint=True)
    assert any("opscope/verdict" in one for one in trainer.state.log_history)


@pytest.mark.slow
def test_lightning(tmp_path, capfd):
    need("pytorch_lightning")
    import pytorch_lightning as lightning
    from pytorch_lightning.loggers import CSVLogger

    from opscope.integrations.lightning import OpscopeProfiler, VerdictCallback

    network, samples, line = planted("loading")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network

        def training_step(self, batch, index):
            return self.network(**batch)["loss"]

        def validation_step(self, batch, index):
            self.network(**batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = VerdictCallback(tmp_path / "out")
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=CSVLogger(tmp_path),
        callbacks=[callback],
        profiler=OpscopeProfiler(),
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    loader = DataLoader(samples, batch_size=8)
    trainer.fit(Module(), loader, loader)

    named(line, "\n".join(callback.session.outcome.lines))
    named(line, trainer.profiler.summary())
    trace = opscope.load(callback.session.outcome.trace)
    names = {trace.event_name(event) for event in range(len(trace.events))}
    assert "run_training_batch" in names
    assert "opscope: verdict:" in capfd.readouterr().err


@pytest.mark.slow
def test_accelerate(tmp_path):
    need("accelerate")
    from accelerate import Accelerator
    from accelerate.tracking import GeneralTracker

    from opscope.integrations.accelerate import opscope_training

    class Tracker(GeneralTracker):
        name, requires_logging_directory = "mine", False
        logged = {}

        def __init__(self):
            super().__init__(_blank=True)

        @property
        def tracker(self):
            return self

        def add_scalar(self, name, value, step):
            self.logged[name] = value

        def add_text(self, name, text, step):
            self.logged[name] = text

        def flush(self):
            pass

        def store_init_configuration(self, values):
            pass

        def log(self, values, step=None, **kwargs):
            pass

    network, samples, line = planted("items")
    accelerator = Accelerator(cpu=True, log_with=Tracker())
    accelerator.init_trackers("tests")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    network, optimizer, loader = accelerator.prepare(
        network, optimizer, DataLoader(samples, batch_size=8)
    )
    with opscope_training(accelerator, tmp_path / "out") as session:
        for _ in range(2):
            for batch in loader:
                accelerator.backward(network(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()

    named(line, "\n".join(session.outcome.lines))
    named(line, Tracker.logged["opscope/verdict"])
    assert "backward" not in vars(accelerator)


@pytest.mark.slow
def test_ignite(tmp_path):
    need("ignite")
    from ignite.engine import Engine

    from opscope.integrations.ignite import OpscopeHandler

    network, samples, line = planted("items")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step(engine, batch):
        network(**batch)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()

    engine = Engine(step)
    OpscopeHandler(tmp_path / "out").attach(engine)
    engine.run(DataLoader(samples, batch_size=8), max_epochs=2)
    named(line, "\n".join(engine.state.opscope.lines))

    failing = Engine(lambda engine, batch: 1 / 0)
    OpscopeHandler(tmp_path / "out", flight=None).attach(failing)
    with pytest.raises(ZeroDivisionError):
        failing.run([1, 2, 3])


RANK = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, {tests!r})
from support.planted_faults import planted
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from opscope.integrations.session import TrainingSession

dist.init_process_group("gloo")
network, samples, _ = planted("items")
network = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
session = TrainingSession({folder!r}, flight=None)
session.begin()
for batch in DataLoader(samples, batch_size=8):
    network(**batch)["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
    session.step_ended()
session.end()
dist.destroy_process_group()
"""


def test_two_ranks_are_one_job(tmp_path):
    script, folder = tmp_path / "train.py", tmp_path / "out"
    script.write_text(RANK.format(tests=str(Path(__file__).parents[1]), folder=str(folder)))
    done = run_ranks(script, 2)

    assert done.stderr.count("opscope: verdict:") == 1  # of the first rank
    assert sorted(path.name for path in folder.glob("verdict*")) == [
        "verdict-rank-0.json",
        "verdict-rank-1.json",
    ]
    assert opscope.load_job(folder / "trace.opscope").ranks == [0, 1]
