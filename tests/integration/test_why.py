"""``opscope run --why``: from nothing to what to change, in one command."""

import textwrap
import time

import numpy as np
import pytest

import opscope
from opscope.analysis.source_lines import program_lines
from opscope.columns.metadata_kinds import DETAIL
from opscope.columns.schema import EventKind
from opscope.storage.manifest import unfinished_below
from opscope.timeline.detail import in_detail, is_warm
from support.processes import run_python
from support.torch_processes import run_torch

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
import opscope.torch_api.profile_recording as p

def fail(self, on, steps=0):
    raise RuntimeError("no more")

p.ProfileRecording.record_detail = fail
"""


@pytest.fixture
def why(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)

    def call(*arguments, options=(), **more):
        return run(tmp_path, "--why", *options, arguments=arguments, **more)

    return call


def optimizer_steps(trace):
    names = [trace.event_name(event) for event in range(len(trace.events))]
    return sum(name.startswith("Optimizer.step") for name in names)


def test_the_line_to_change_is_reported_and_warm_steps_are_recorded_in_detail(why, tmp_path):
    done = why("130")
    assert done.stdout == "the end\n"
    assert "findings of " in done.stderr and "after warm-up" in done.stderr
    assert "train.py:13 in forward" in done.stderr
    assert "y[i] = self.linear(x[i])" in done.stderr
    assert "What to do:" in done.stderr

    whole = opscope.load(tmp_path / "train.opscope")
    assert optimizer_steps(whole) == 130
    trace = in_detail(whole)
    said = int(done.stderr.split("findings of ")[1].split(" ")[0])
    # The window opens and closes at the end of a step, inside what torch calls the step.
    assert abs(optimizer_steps(trace) - said) <= 1
    frames = np.unique(trace.table("python_calls")["frame"])
    files = {trace.names[row] for row in trace.table("frames")["file"][frames].tolist()}
    own = {file for file in files if "site-packages" not in file and "/lib/python" not in file}
    assert {file.rpartition("/")[2] for file in own} <= {"train.py", "<string>"}
    functions = trace.table("frames")["function"][frames]
    installed = {trace.names[row] for row in functions.tolist()} - {"forward", "<module>"}
    assert len(installed) <= 6, "modules and optimizers alone"
    ids = np.stack([trace.table("tensors")[name] for name in ("tensor_id", "allocation_id")])
    pairs = np.unique(ids[:, (ids >= 0).all(axis=0)], axis=1)
    assert len(np.unique(pairs[0])) == pairs.shape[1], "ids of the start are of other tensors"


def test_a_program_that_ends_before_it_is_warm_is_explained_by_its_start(why, tmp_path):
    done = why("2")
    assert "before warm-up was complete" in done.stderr
    assert "train.py:13 in forward" in done.stderr
    assert len(opscope.load(tmp_path / "train.opscope").events) > 50


def test_a_program_without_steps(why):
    done = why("0")
    assert "no operator" in done.stderr or "no optimizer's step() has returned" in done.stderr
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
        (("--why", "--max-disk", "128"), 150_000),  # moved out of its file while it is recorded
    ],
)
def test_a_script_without_functions_is_explained_by_its_own_lines(tmp_path, options, count):
    (tmp_path / "train.py").write_text(SCRIPT.replace("COUNT", str(count)))
    done = run(tmp_path, *options)
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


SERVING = """
import time

def serve():
    while time.monotonic() < until:
        with torch.inference_mode():
            network(x)

until = time.monotonic() + 6
threads = [threading.Thread(target=serve) for _ in range(1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_a_server_is_answered_for_without_options_and_so_are_steps_that_follow(tmp_path):
    before, rest = PROGRAM.split("optimizer = ")
    program = f"import threading\n{before}x = torch.randn(16, 16)\n{SERVING}optimizer = {rest}"
    (tmp_path / "serve.py").write_text(program)
    done = run(tmp_path, arguments=["60"], program="serve.py")
    assert "serve.py:14 in forward" in done.stderr
    trace = opscope.load(tmp_path / "serve.opscope")
    assert is_warm(trace)
    assert len(trace.metadata[DETAIL]["stretches"]) >= 2


def test_a_fault_of_recording_does_not_reach_the_programs_step(why, tmp_path):
    faulty = FAULT + PROGRAM
    (tmp_path / "train.py").write_text(faulty)
    done = why("12", run=run_python)  # before recording begins, as torch is imported
    assert done.stdout == "the end\n"
    assert "Steps could not be recorded in detail: no more" in done.stderr


INTERRUPTED = """\
import os, signal, threading
from opscope.api.trace import Trace

save = Trace.save

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return save(*arguments, **options)

Trace.save = interrupted
"""


def test_an_interruption_while_the_answer_is_made_waits_for_it(why, tmp_path):
    (tmp_path / "train.py").write_text(INTERRUPTED + PROGRAM)
    done = why("9", options=("--no-stream",))
    assert "press Ctrl-C again to lose it" in done.stderr
    assert done.stderr.count("findings of") == 1
    assert done.stderr.count("trace written to") == 1
    assert "saves about" in done.stderr
    assert "the end" in done.stdout


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


def run(folder, *options, arguments=(), code=0, program="train.py", run=run_torch):
    command = ["-m", "opscope", "run", *options, program, *arguments]
    done = run(*command, cwd=folder)
    assert done.returncode == code, done.stderr[-3000:]
    return done


def test_without_options_the_line_is_named_too(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run(tmp_path, arguments=["60"])
    assert "at train.py:13 in forward (`y[i] = self.linear(x[i])`)" in done.stderr
    assert " steps (" in done.stderr and ") in detail, about " in done.stderr
    assert "of the part recorded in detail" in done.stderr
    trace = opscope.load(tmp_path / "train.opscope")
    assert optimizer_steps(trace) == 60
    calls = trace.events["kind"] == EventKind.PYTHON_CALL
    (_, stretch) = trace.metadata[DETAIL]["stretches"]
    inside = trace.events["start_ns"][calls]
    inside = inside[inside > stretch["end_ns"] + 1_000_000]
    assert len(inside) == 0  # nothing but operators is recorded after it
    # What ran when it ended has ended with it, but for what the program is in throughout.
    ends = trace.end_ns[calls]
    assert np.count_nonzero(ends > stretch["end_ns"] + 1_000_000) <= 1


def test_what_is_recorded_can_be_said(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    run(tmp_path, "--record", "operators,shapes", arguments=["10"])
    trace = opscope.load(tmp_path / "train.opscope")
    assert DETAIL not in trace.metadata
    assert len(trace.table("tensors")) and not len(trace.table("python_calls"))


OWN_LINES = """\
import torch
weights = [torch.nn.Parameter(torch.rand(8)) for _ in range(40)]
optimizer = torch.optim.Adam(weights, foreach=False)
for step in range(60):
    for weight in weights:
        weight.grad = torch.ones(8)
    optimizer.step()
"""


def test_later_steps_of_a_script_without_functions_have_their_lines(tmp_path):
    (tmp_path / "train.py").write_text(OWN_LINES)
    done = run(tmp_path, run=run_python)  # recording begins within <module>
    assert "at train.py:7 in <module> (`optimizer.step()`)" in done.stderr
    trace = opscope.load(tmp_path / "train.opscope")
    _, steps = trace.metadata[DETAIL]["stretches"]
    rows = [
        row for row in range(len(trace.events)) if trace.event_name(row) == "train.py(1): <module>"
    ]
    assert len(rows) == 2
    first, second = rows
    edges = steps["start_ns"] - 1_000_000, steps["end_ns"] + 1_000_000
    assert trace.end_ns[first] <= trace.events["start_ns"][second]
    assert edges[0] <= trace.events["start_ns"][second] < trace.end_ns[second] <= edges[1]


SERVICE = """\
import time
import torch
network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())

def serve(until_s):
    while time.monotonic() < until_s:
        x = torch.randn(64, 64)
        network(x)

serve(time.monotonic() + 6)
"""


def test_a_stretch_that_begins_within_a_function_has_its_lines(tmp_path):
    (tmp_path / "train.py").write_text(SERVICE)
    run(tmp_path)
    trace = opscope.load(tmp_path / "train.opscope")
    assert len(trace.metadata[DETAIL]["stretches"]) > 1
    lines = {(line.line, line.function): line.calls for line in program_lines(in_detail(trace))}
    assert lines[8, "serve"] > 100 and lines[7, "serve"] > 100


THREAD = """\
import threading
def main():
    INSIDE
thread = threading.Thread(target=main)
thread.start()
thread.join()
print("the end")
"""


def test_steps_of_another_thread_are_recorded_in_detail(tmp_path):
    before, loop = PROGRAM.split("for step in ")
    loop = "for step in " + loop.replace('print("the end")\n', "")
    program = before + THREAD.replace("    INSIDE", textwrap.indent(loop, "    "))
    (tmp_path / "train.py").write_text(program)
    done = run(tmp_path, arguments=["40"])
    trace = opscope.load(tmp_path / "train.opscope")
    assert is_warm(trace) and "train.py:13 in forward" in done.stderr
    part = in_detail(trace)
    outermost = np.flatnonzero(part.events["parent"] < 0)
    assert any("main" in part.event_name(row) for row in outermost.tolist())


def test_a_killed_program_keeps_the_steps_in_detail(tmp_path):
    kill = "    import os, signal\n    if step == 20: os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "train.py").write_text(PROGRAM.replace('print("the end")', kill))
    run(tmp_path, arguments=["40"], code=-9)
    trace = recovered(tmp_path / "train.opscope")
    assert is_warm(trace)
    (finding, *_) = trace.findings()
    assert finding.places[0].line == 13


def recovered(folder):
    """By the process that waits for the end of the one that was killed."""
    until = time.monotonic() + 60
    while list(unfinished_below(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    return opscope.load(folder)
