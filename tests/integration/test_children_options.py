"""`opscope run --children` with what chooses steps, answers, draws, or keeps only the end."""

import json
import os
import signal
from pathlib import Path

import pytest

import opscope
from opscope.storage.manifest import unfinished_below
from opscope.storage.processes import Processes
from opscope.timeline.detail import is_warm
from support.processes import run_python, wait_until
from support.recorded import steps_of
from support.torch_processes import TorchProgram, run_torch

torch = pytest.importorskip("torch", reason="records programs of torch")

TRAINING = """
import json, os, signal, subprocess, sys, torch

def train(steps):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()

def forked(steps, end=lambda: os._exit(0)):
    child = os.fork()
    if child == 0:
        train(steps)
        end()
        os._exit(1)
    os.waitpid(child, 0)
    return child
"""

FAMILY = (
    TRAINING
    + """
train(3)
told = {"main": os.getpid(), "forked": forked(6), "idle": forked(0)}
told["killed"] = forked(5, lambda: os.kill(os.getpid(), signal.SIGKILL))
program = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
told["started"] = program.pid
program.wait()
print(json.dumps(told))
"""
)
STARTED = TRAINING + "\ntrain(4)\n"


def run(folder, source, *options, arguments=()):
    program = Path(f"{folder}.py")
    program.write_text(source)
    done = run_torch("-m", "opscope", "run", *options, "-o", folder, program, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def run_family(folder, *options):
    done = run(folder, FAMILY, "--children", *options, arguments=[STARTED])
    return json.loads(done.stdout), done.stderr


def processes_of(folder):
    found = Processes.in_folder(folder)
    return {entry.process_id: found.load(entry.partition) for entry in found.recorded}


def test_every_process_has_a_schedule_of_its_own_and_pictures_are_of_all(tmp_path):
    folder, chrome, page = tmp_path / "job", tmp_path / "all.json", tmp_path / "all.html"
    options = ("--schedule", "1,0,2,1", "--chrome", chrome, "--report", page)
    told, said = run_family(folder, *options)
    spans = [e for e in json.loads(chrome.read_text())["traceEvents"] if e.get("ph") == "X"]
    shown = {e["pid"] for e in spans if e["name"] == "Optimizer.step#SGD.step"}
    assert shown == {told[who] for who in ("main", "forked", "killed", "started")}
    assert page.stat().st_size > 100_000
    assert said.count("of all processes written to") == 2
    traces = processes_of(folder)
    assert traces.keys() == {told[who] for who in ("main", "forked", "killed", "started")}
    assert {process: steps_of(trace) for process, trace in traces.items()} == dict.fromkeys(
        traces, 2
    )
    assert "1 ended before a step that was to be recorded" in said


def test_every_cycle_is_a_folder_with_the_processes_that_came_to_it_until_another_job(tmp_path):
    folder = tmp_path / "job"
    told, said = run_family(folder, "--schedule", "1,0,1", "--report", tmp_path / "all.html")
    came = [("main", "forked", "killed", "started"), ("forked", "killed", "started"), ("forked",)]
    for number, who in enumerate(came, start=1):
        cycle = processes_of(folder / f"cycle-{number}")
        assert cycle.keys() >= {told[name] for name in who}
        assert (tmp_path / f"all-cycle-{number}.html").exists()
        assert f"of them recorded in {folder}/cycle-{number}" in said
    assert {entry.ended for entry in Processes.in_folder(folder / "cycle-1").entries} >= {
        "killed by SIGKILL"
    }
    assert list(unfinished_below(folder)) == []
    run(folder, TRAINING + "train(2)", "--children", "--schedule", "1,0,1")
    assert [path.name for path in folder.glob("cycle-*")] == ["cycle-1"]
    assert len(processes_of(folder / "cycle-1")) == 1


def test_steps_of_a_forked_child_are_not_the_program_s(tmp_path):
    done = run(tmp_path / "one", TRAINING + "train(2)\nforked(9)\ntrain(2)", "--schedule", "1,0,1")
    cycles = sorted(path.name for path in (tmp_path / "one").glob("cycle-*"))
    assert cycles == ["cycle-1", "cycle-2"]
    assert done.stderr.startswith("opscope: 2 cycles were recorded")


def test_why_is_answered_for_the_process_that_did_most(tmp_path):
    source = TRAINING + "train(1)\nforked(6)\nbusy = forked(30)\nforked(0)\nprint(busy)"
    done = run(tmp_path / "job", source, "--children", "--why")
    busy = int(done.stdout)
    answer = f"findings of process {busy}, because it has most events; 2 of 4 processes completed"
    assert answer in done.stderr
    assert done.stderr.count("findings of process") == 1
    traces = processes_of(tmp_path / "job")
    assert is_warm(traces[busy])
    assert sum(map(is_warm, traces.values())) == 2
    assert list(unfinished_below(tmp_path / "job")) == []


FLYING = (
    TRAINING
    + """
import time
child = os.fork()
if child == 0:
    train(3)
    open(sys.argv[1], "w").write("ready")
    while not os.path.exists(sys.argv[1] + ".go"):
        time.sleep(0.01)
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
grandchild = "import torch; torch.ones(3).add(1); raise ValueError('wrong')"
print(subprocess.Popen([sys.executable, "-c", grandchild], stderr=subprocess.DEVNULL).pid)
os.wait()
"""
)


def test_every_process_has_a_flight_recorder_of_its_own(tmp_path):
    lists = tmp_path / "lists"
    lists.mkdir()
    dumps, ready, program = tmp_path / "dumps", tmp_path / "ready", tmp_path / "flying.py"
    program.write_text(FLYING)
    command = ("-m", "opscope", "run", "--children", "--flight-recorder", "10min")
    # Where others have the processors, steps are long ago, or cost too much, once it is asked.
    more = ("--budget", "none", "-o", dumps, program, ready)
    with TorchProgram(*command, *more, added={"TMPDIR": str(lists)}) as process:
        child = int(process.stdout.readline())
        wait_until(ready.exists)
        os.kill(child, signal.SIGUSR2)
        wait_until(lambda: list(dumps.glob(f"*-{child}-*-signal.opscope")))
        Path(f"{ready}.go").touch()
        raised = int(process.stdout.readline())
        assert process.wait(120) == 0
    wait_until(lambda: not list(dumps.glob(".dump-*")))
    (asked,) = dumps.glob(f"*-{child}-*.opscope")
    (uncaught,) = dumps.glob(f"*-{raised}-*.opscope")
    assert len(list(dumps.glob("*.opscope"))) == 2
    assert steps_of(opscope.load(asked)) == 3
    assert opscope.load(uncaught).metadata["dump"]["detail"].startswith("ValueError: wrong")
    assert list(lists.glob("opscope*")) == []


def test_a_program_that_never_imports_torch_ends_as_ever(tmp_path):
    """Who is slow and what memory was for is asked as it ends: torch would not survive that."""
    program = Path(__file__).parents[1] / "programs" / "starts_ranks.py"
    options = ("--children", "--why", "--memory", "--shapes", "-o", "job")
    opscope_run = ("-X", "faulthandler", "-m", "opscope", "run", *options)
    done = run_python(*opscope_run, program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Fatal Python error" not in done.stderr and "Traceback" not in done.stderr
    assert opscope.load(tmp_path / "job").ranks == [0, 1]
