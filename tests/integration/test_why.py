"""``opscope run --why``: from nothing to what to change, in one command."""

import subprocess
import sys

import numpy as np
import pytest

import opscope
from opscope.timeline.steady_state import find_start_up

PROGRAM = """\
import sys
import torch


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            y[i] = self.linear(x[i])
        return y


network = Rows()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
x = torch.randn(16, 16)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    network(x).square().mean().backward()
    optimizer.step()
    if sys.argv[2:] == [str(step)]:
        raise SystemExit(7)
print("the end")
"""


FAULT = """\
start = p.ProfileRecording.start

def fail_later(self, started=[]):
    if started:
        raise RuntimeError("no more")
    started.append(self)
    start(self)

p.ProfileRecording.start = fail_later
"""


@pytest.fixture
def why(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)

    def call(*arguments, options=(), code=0):
        command = [sys.executable, "-m", "opscope", "run", "--why", *options, "train.py"]
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, done.stderr[-3000:]
        return done

    return call


def optimizer_steps(trace):
    names = [trace.event_name(event) for event in range(len(trace.events))]
    return sum(name.startswith("Optimizer.step") for name in names)


def test_the_line_to_change_is_said_and_only_warm_steps_are_recorded(why, tmp_path):
    done = why("130")
    assert done.stdout == "the end\n"
    assert "this is about " in done.stderr and "after warm-up" in done.stderr
    assert "train.py:13 in forward" in done.stderr
    assert "y[i] = self.linear(x[i])" in done.stderr
    assert "What to do:" in done.stderr

    trace = opscope.load(tmp_path / "train.opscope")
    assert find_start_up(trace).took_ns == 0  # all of it is steady
    said = int(done.stderr.split("this is about ")[1].split(" ")[0])
    # The window opens and closes at the end of a step, inside what torch calls the step.
    assert abs(optimizer_steps(trace) - said) <= 1
    files = {trace.names[row] for row in np.unique(trace.table("frames")["file"]).tolist()}
    own = {file for file in files if "site-packages" not in file and "/lib/python" not in file}
    assert {file.rpartition("/")[2] for file in own} <= {"train.py", "<string>"}
    functions = trace.table("frames")["function"]
    installed = {trace.names[row] for row in functions.tolist()} - {"forward", "<module>"}
    assert len(installed) <= 6, "modules and optimizers alone"


def test_a_program_that_ends_before_it_is_warm_is_explained_by_its_start(why, tmp_path):
    done = why("2")
    assert "before warm-up was complete" in done.stderr
    assert "train.py:13 in forward" in done.stderr
    assert len(opscope.load(tmp_path / "train.opscope").events) > 50


def test_a_program_without_steps(why):
    done = why("0")
    assert "no optimizer's step() has returned" in done.stderr
    assert done.stdout == "the end\n"


SCRIPT = """\
import torch
x = torch.zeros(1)
for _ in range(COUNT):
    x.add_(1)
"""


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--why",), 3_000),
        (("--why", "--max-disk", "256"), 300_000),  # moved out of its file while it is recorded
    ],
)
def test_a_script_without_functions_is_explained_by_its_own_lines(tmp_path, options, count):
    (tmp_path / "train.py").write_text(SCRIPT.replace("COUNT", str(count)))
    command = [sys.executable, "-m", "opscope", "run", *options]
    done = subprocess.run(
        [*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    trace = opscope.load(tmp_path / "train.opscope")
    calls = trace.table("operator_calls")
    adding = calls["event"][trace.events["name"][calls["event"]] == trace.names.find("aten::add_")]
    assert len(adding) > 0
    lines = calls["caller_line"][np.isin(calls["event"], adding)]
    assert set(lines.tolist()) == {4}
    around = {trace.event_name(row) for row in trace.events["parent"][adding].tolist()}
    assert {name.rpartition("/")[2] for name in around} == {"train.py(1): <module>"}
    assert "at train.py:4 in <module>" in done.stderr
    assert "What to do: " in done.stderr  # the whole finding, and not its first line


SERVES = """\
import sys, threading, time
import opscope.live.warm_steps

opscope.live.warm_steps._LONG_S = 3.0
"""
SERVING = """
def serve():
    while time.monotonic() < until:
        with torch.inference_mode():
            network(x)
        time.sleep(0.01)

x = torch.randn(16, 16)
until = time.monotonic() + 6
threads = [threading.Thread(target=serve) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.fixture
def server(tmp_path):
    """First it calls its network from two threads, then it trains for as many steps as asked."""
    imported, rest = PROGRAM.split("import sys\n")[1].split("optimizer = ")
    path = tmp_path / "train.py"
    path.write_text(f"{SERVES}{imported}{SERVING}optimizer = {rest}")


def test_a_server_is_answered_for_while_it_runs_and_steps_that_follow_too(why, server, tmp_path):
    done = why("60")
    assert "no optimizer's step() has returned for 3 s" in done.stderr
    assert "train.py:16 in forward" in done.stderr
    assert "steps analysed after warm-up" in done.stderr
    assert done.stderr.count("trace written to") == 2
    assert optimizer_steps(opscope.load(tmp_path / "train.opscope")) > 5


def test_a_fault_of_recording_does_not_reach_the_programs_step(why, tmp_path):
    faulty = "import opscope.torch_api.profile_recording as p\n" + FAULT + PROGRAM
    (tmp_path / "train.py").write_text(faulty)
    done = why("12")
    assert done.stdout == "the end\n"
    assert "The steps after warm-up could not be recorded: no more" in done.stderr


def test_a_schedule_of_ones_own_is_refused(why):
    done = why("1", options=("--schedule", "1,1,1"), code=2)
    assert "--why and --schedule both choose" in done.stderr


INTERRUPTED = """\
import os, signal, threading
from opscope.api.trace import Trace

save = Trace.save

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return save(*arguments, **options)

Trace.save = interrupted
"""


@pytest.mark.parametrize("ends_at", ["in the middle", "at the end"])
def test_an_interruption_while_the_answer_is_made_waits_for_it(why, tmp_path, ends_at):
    program = tmp_path / "train.py"
    program.write_text(INTERRUPTED + PROGRAM)
    in_the_middle = ends_at == "in the middle"
    steps, code = ("1000", -2) if in_the_middle else ("9", 0)
    done = why(steps, options=("--no-stream",), code=code)
    assert "press Ctrl-C again to lose it" in done.stderr
    assert done.stderr.count("this is about") == 1
    assert done.stderr.count("trace written to") == 1
    assert "saves about" in done.stderr
    assert ("KeyboardInterrupt" in done.stderr) == in_the_middle
    assert ("the end" in done.stdout) != in_the_middle


@pytest.mark.parametrize("step", [0, 5])
def test_an_interrupted_program_is_answered_for(why, tmp_path, step):
    interrupts = (
        f"    import os, signal\n    if step == {step}: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    (tmp_path / "train.py").write_text(PROGRAM.replace('print("the end")', interrupts))
    done = why("1000", code=-2)
    assert done.stderr.count("trace written to") == 1
    about = "ended before warm-up was complete" if step < 3 else "after warm-up"
    assert about in done.stderr
