"""Programs that die while they are recorded: how they end, what their trace has, who writes it."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import opscope
from opscope.cli import main
from opscope.storage.manifest import unfinished_recordings
from support.processes import run_python
from support.recorded import count
from support.torch_processes import TorchProgram, run_torch

TESTS = Path(__file__).parents[1]

PROGRAM = """
import os, signal, sys, threading, torch
def work(name):
    model = torch.nn.Linear(4, 4)
    with torch.profiler.record_function(name):
        for i in range(50):
            with torch.profiler.record_function("step"):
                model(torch.ones(2, 4)).sum().backward()
        {end}
"""

ENDS = {
    "kill(SIGKILL)": (-signal.SIGKILL, "killed by SIGKILL"),
    "kill(SIGSEGV)": (-signal.SIGSEGV, "killed by SIGSEGV"),
    "os._exit(7)": (7, "exited with code 7"),
    "os.execv('/bin/sh', ['sh', '-c', 'sleep 0.5; exit 8'])": (8, "became another program"),
}


def run(tmp_path, program, *options, **more):
    """``opscope run``, and what its keeper says: it holds standard error until it is done."""
    (tmp_path / "script.py").write_text(program)
    command = ("-m", "opscope", "run", "-o", "t", *options, "script.py")
    done = run_torch(*command, cwd=tmp_path, **more)
    return done.returncode, done.stderr


def source(end):
    end = end.replace("kill(", "os.kill(os.getpid(), signal.")
    return PROGRAM.format(end=end)


@pytest.mark.parametrize("end", ENDS)
def test_the_keeper_writes_what_a_program_could_not(tmp_path, capsys, end):
    code, said = run(tmp_path, source(end) + "work('main')\n")
    assert (code, ENDS[end][1]) == (ENDS[end][0], ENDS[end][1])
    assert ENDS[end][1] in said and "trace written to" in said
    assert unfinished_recordings(tmp_path / "t") == []
    trace = opscope.load(tmp_path / "t")
    assert ENDS[end][1] in trace.metadata["ended"]["how"]
    assert count(trace, "step") == 50 and count(trace, "main") == 1
    capsys.readouterr()
    main(["summary", str(tmp_path / "t")])
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("thread ") and ": work for " in first


def test_what_another_thread_does_is_there_as_well(tmp_path):
    program = source("worked.set(); threading.Event().wait()") + (
        "worked = threading.Event()\n"
        "threading.Thread(target=work, args=('other',), daemon=True).start()\n"
        "worked.wait()\n"
        "for i in range(2000): torch.zeros(2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    code, said = run(tmp_path, program)
    assert code == -signal.SIGKILL
    trace = opscope.load(tmp_path / "t")
    assert count(trace, "aten::zeros") == 2000 and count(trace, "step") == 50
    assert ": wait for " in said and "script.py(3): work" in said


def test_without_a_keeper_the_file_is_left(tmp_path, capsys):
    code, said = run(tmp_path, source("os._exit(7)") + "work('main')\n", "--no-keeper")
    assert code == 7 and "trace written" not in said
    (path,) = unfinished_recordings(tmp_path / "t")
    assert count(opscope.load(tmp_path / "t"), "step") == 50
    main(["doctor", "--recover", str(tmp_path / "t")])
    assert "trace written to" in capsys.readouterr().err
    assert not path.exists() and count(opscope.load(tmp_path / "t"), "step") == 50
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--recover", str(tmp_path / "t")])
    assert ended.value.code == 1 and "no unfinished recording" in capsys.readouterr().err


KEEPERS = """
import glob
def keepers():
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\\0")
        except OSError:
            continue
        if b"keeper_process" in b" ".join(words) and str(os.getpid()).encode() in words:
            found.append(int(path.split("/")[2]))
    return found
"""


def test_the_keeper_is_nobodys_child_and_leaves_signals_of_the_terminal_alone(tmp_path):
    program = source("pass") + KEEPERS + (
        "import json\n"
        "(keeper,) = keepers()\n"
        "stat = open(f'/proc/{keeper}/stat').read()\n"
        "parent = int(stat.rpartition(')')[2].split()[1])\n"
        "folder = f'/proc/{keeper}/fd'\n"
        "files = [os.readlink(f'{folder}/{number}') for number in os.listdir(folder)]\n"
        "is_apart = [os.getsid(keeper) != os.getsid(0), parent != os.getpid()]\n"
        "facts = [*is_apart, os.getpriority(0, keeper)]\n"
        "status = open(f'/proc/{keeper}/status').read()\n"
        "rss = int(status.split('VmRSS:')[1].split()[0])\n"
        "json.dump([facts, files, rss], open('facts', 'w'))\n"
        "try:\n    os.waitpid(-1, os.WNOHANG)\n    raise SystemExit(9)\n"
        "except ChildProcessError: pass\n"
    )  # fmt: skip
    code, said = run(tmp_path, program)
    facts, files, rss = json.loads((tmp_path / "facts").read_text())
    # It makes the trace that the user waits for, so it is not nicer than the program.
    assert code == 0 and facts == [True, True, os.getpriority(os.PRIO_PROCESS, 0)]
    assert sum(name.startswith("pipe:") for name in files) <= 2  # ours, and standard error
    assert rss < 40_000
    assert "trace written" in said


def test_a_killed_keeper_costs_the_program_nothing(tmp_path):
    program = (
        source("pass")
        + KEEPERS
        + "work('main')\n"
        + ("for keeper in keepers(): os.kill(keeper, signal.SIGKILL)\nwork('again')\n")
    )
    code, said = run(tmp_path, program)
    assert code == 0 and "trace written" in said
    assert count(opscope.load(tmp_path / "t"), "step") == 100


def test_a_reader_of_the_output_does_not_wait_for_the_keeper(tmp_path):
    (tmp_path / "go").touch()
    (tmp_path / "script.py").write_text(
        "import os, time, torch\ntorch.ones(2)\nnothing = os.open(os.devnull, os.O_WRONLY)\n"
        "os.dup2(nothing, 1), os.dup2(nothing, 2)\n"
        "while os.path.exists('go'): time.sleep(0.01)\n"
    )
    program = TorchProgram("-m", "opscope", "run", "-o", "t", "script.py", cwd=tmp_path)
    assert program.stdout.read() == program.stderr.read() == ""
    assert program.poll() is None
    (tmp_path / "go").unlink()
    assert program.wait(60) == 0


def test_ctrl_c_does_not_reach_the_keeper(tmp_path):
    program = source("pass") + "work('main')\nos.kill(0, signal.SIGINT)\nos._exit(5)\n"
    ignores = "import signal; signal.signal(2, signal.SIG_IGN)\nimport os,"
    program = program.replace("import os,", ignores)
    code, said = run(tmp_path, program, start_new_session=True)
    assert code == 5 and "exited with code 5" in said


def test_a_schedule_leaves_the_cycles_before_and_the_one_that_did_not_end(tmp_path):
    program = (
        "import os, torch\nmodel = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(5):\n    optimizer.step()\n"
        "with torch.profiler.record_function('last'):\n    os._exit(3)\n"
    )
    code, _ = run(tmp_path, program, "--schedule", "0,0,2")
    assert code == 3
    cycles = sorted((tmp_path / "t").glob("cycle-*"))
    assert [cycle.name for cycle in cycles] == ["cycle-1", "cycle-2", "cycle-3"]
    assert count(opscope.load(cycles[2]), "last") == 1
    assert not any(unfinished_recordings(cycle) for cycle in cycles)


def test_a_few_random_deaths_lose_nothing():
    done = run_python("-m", "deaths", "--count", "4", "--seed", os.getpid(), cwd=TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_comparison_notices_what_is_not_there():
    sys.path.insert(0, str(TESTS))
    from deaths.counts import UNITS_BEGUN, Counts
    from deaths.judge import differences
    from support.build_trace import build_trace, span

    counts = Counts()
    counts.rows[0, UNITS_BEGUN] = 2
    ended = {"how": "", "whole": False}
    trace = build_trace([span("unit of 0", 0, 10)]).with_metadata(
        {"ended": ended, "options": {"memory": False}}
    )
    assert any("unit of 0: begun" in found for found in differences(trace, counts))
