"""At its end a program only stops recording: another process makes the trace and looks at it."""

import os
import re

import pytest

import opscope
from opscope.cli import main
from opscope.columns.metadata_kinds import STEPS
from opscope.timeline.detail import in_detail
from support.processes import run_python
from support.torch_processes import TorchProgram, run_torch


@pytest.fixture
def execute(tmp_path):
    def call(*arguments, run=run_torch, **environment):
        command = ("-m", "opscope", "run", "-o", "t", *arguments)
        done = run(*command, cwd=tmp_path, added=environment)
        assert done.returncode == 0, done.stderr
        return done

    return call


WORK = "import torch\nx = torch.zeros(9)\nfor _ in range(20): x = x + 1\n"


AT_EXIT = "import atexit, torch\natexit.register(lambda: [torch.ones(99) for _ in range(500)])\n"


def test_what_looks_at_the_trace_is_never_in_the_program_and_knows_what_only_that_knows(
    execute, tmp_path
):
    lists = {"run": run_python, "PYTHONPROFILEIMPORTTIME": "1"}
    said = execute("--shapes", "--memory", "-c", AT_EXIT + WORK, **lists).stderr
    imported = set(re.findall(r"^import time:.*\| +(\S+)$", said, re.MULTILINE))
    assert "opscope.cli.session.recording_session" in imported  # it is the program's that is listed
    assert not {name for name in imported if name.startswith(("pyarrow", "pandas"))}
    assert not {name for name in imported if "findings" in name or "cli.headline" in name}
    most_time = next(line for line in said.splitlines() if "opscope: most time: " in line)
    assert "aten::ones" not in most_time  # Python's own end is no time of the program
    trace = opscope.load(tmp_path / "t")
    assert "aten::add" in trace.metadata["overloads"]
    assert trace.ledger["recorder"]["cost_ns of one operator"] > 0
    assert "ended" not in trace.metadata
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["rank=00000"]


def test_without_a_file_the_trace_is_made_there_and_looked_at_elsewhere(execute, tmp_path):
    said = execute("--no-stream", "-c", WORK).stderr
    assert said.count("opscope: most time: ") == said.count("opscope: trace written to") == 1
    assert len(opscope.load(tmp_path / "t").events) >= 20


def test_without_a_keeper_one_is_begun_at_the_end(execute, tmp_path):
    said = execute("--no-keeper", "-c", WORK).stderr
    assert "opscope: most time: " in said and (tmp_path / "t" / "rank=00000").is_dir()


def test_a_program_that_runs_nothing_waits_for_nothing_unless_requested(execute, tmp_path):
    said = execute("-c", "import torch", run=run_python, OPSCOPE_END_WAIT="").stderr
    assert said.count("ran no torch operators") == 1 and "trace written to" not in said
    trace = opscope.load(tmp_path / "t")
    assert len(trace.events) < 100
    assert "cost_ns of one operator" not in trace.ledger.get("recorder", {})
    said = execute("-c", "import torch", run=run_python).stderr
    assert said.count("ran no torch operators") == said.count("trace written to") == 1


BURSTS = """
import time, torch
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
for _ in range(7):
    time.sleep(0.5)
    for _ in range(100):  # so that no stretch in detail is of two bursts
        opt.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        opt.step()
"""


def test_steps_in_bursts_are_reported_to_be_a_part_of_the_program(execute, tmp_path, capsys):
    said = execute("--why", "-c", BURSTS).stderr
    assert re.search(r"recorded steps cover [0-9.]+% of the program's time", said)
    assert in_detail(opscope.load(tmp_path / "t")).metadata[STEPS]["ended"] == 700
    capsys.readouterr()
    main(["why", str(tmp_path / "t")])
    why = capsys.readouterr().out
    assert "between or after steps, outside this part" in " ".join(why.split())


def second_run_meanwhile(execute, folder, **environment):
    """Runs a short program while a longer one runs, into its folder; what the longer one says."""
    waits = "import torch; torch.zeros(9).add(1); print('runs', flush=True)\n"
    waits += "open('go').read()"
    os.mkfifo(folder / "go")
    command = ("-m", "opscope", "run", "-o", "t", "-c", waits)
    long = TorchProgram(*command, cwd=folder, added=environment)
    assert long.stdout.readline() == "runs\n"
    execute("-c", WORK, **environment)
    (folder / "go").write_text("")
    return long.communicate(timeout=120)[1]


def test_parts_of_a_job_stay_together_where_another_job_wrote_meanwhile(execute, tmp_path):
    said = second_run_meanwhile(execute, tmp_path, RANK="1", WORLD_SIZE="2")
    assert "another run" not in said and not (tmp_path / "t-2").exists()


def test_two_runs_at_a_time_into_one_folder_replace_nothing_of_each_other(execute, tmp_path):
    said = second_run_meanwhile(execute, tmp_path)
    assert f"another run wrote its trace to {tmp_path / 't'}; this trace has another folder" in said
    assert len(opscope.load(tmp_path / "t").events) >= 20
    assert len(opscope.load(tmp_path / "t-2").events) < 20
    execute("-c", WORK)  # and one that is there before is replaced, as ever
    assert sorted(path.name for path in tmp_path.glob("t*")) == ["t", "t-2"]
