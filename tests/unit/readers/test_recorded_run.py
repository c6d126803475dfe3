"""Programs that take turns, and what is left of them."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time

import pytest

from opscope.readers.recorded_run import Run, record_run, record_turns
from support.build_trace import build_trace, span

SLEEPS = """
import os, subprocess, sys, time
print("\\n".join("x" * 99), flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("started", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("started", "processes")
while True:  # any thread may receive a signal; the main one has to return to Python to handle it
    time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sleeps.py").write_text(SLEEPS)


def processes(folder):
    """The program and its child, once they run."""
    while not (folder / "processes").exists():
        time.sleep(0.01)
    return list(map(int, (folder / "processes").read_text().split()))


def state(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_the_trace_of_an_earlier_run_is_not_that_of_a_program_without_one(tmp_path):
    build_trace([span("aten::mm", 0, 10)]).save(tmp_path / "t.opscope")
    (tmp_path / "a.py").write_text("print('no torch')\n")
    run = record_run(["a.py"], tmp_path / "t.opscope")
    assert (run.trace, run.exit_code, run.output) == (None, 0, "no torch")


def test_only_one_of_two_programs_runs_at_a_time(tmp_path):
    works = "import time\nuntil = time.monotonic() + 1\nwhile time.monotonic() < until: pass\n"
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"{works}print({name!r})\nraise SystemExit(3)\n")
    found = record_turns([["a.py"], ["b.py"]], [tmp_path / "a.opscope", tmp_path / "b.opscope"], [])
    assert [(one.output, one.exit_code) for one in found] == [("a.py", 3), ("b.py", 3)]
    first, second = (one.stops for one in found)
    assert first and second
    both_go_on_until = min(first[-1][1], second[-1][1])
    running = [(end, begin) for (_, end), (begin, _) in itertools.pairwise(first)]
    for begin, end in running:
        if end < both_go_on_until:
            assert any(since <= begin and end <= until for since, until in second)


def test_a_run_that_takes_too_long_is_ended_with_its_last_lines(tmp_path):
    with Run(["sleeps.py"], tmp_path / "t.opscope") as run:
        processes(tmp_path)
        run.wait(0)
        assert run.is_running
    found = run.result()
    assert found.exit_code == -signal.SIGTERM
    assert found.output.splitlines() == ["x"] * 20


def test_an_interrupt_ends_a_stopped_program(tmp_path):
    with pytest.raises(KeyboardInterrupt), Run(["sleeps.py"], tmp_path / "t.opscope") as run:
        program, child = processes(tmp_path)
        run.stop()
        raise KeyboardInterrupt
    assert state(program) == "Z"
    while state(child) != "Z":
        time.sleep(0.01)


def test_the_kernel_ends_a_stopped_program_of_a_killed_opscope(tmp_path):
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from opscope.readers.recorded_run import Run\n"
        "run = Run(['sleeps.py'], Path('t.opscope'))\n"
        "while not os.path.exists('processes'): time.sleep(0.01)\n"
        "run.stop()\ntime.sleep(600)"
    )
    opscope = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
    both = processes(tmp_path)
    while any(state(process) != "T" for process in both):
        time.sleep(0.01)
    opscope.kill()
    opscope.wait()
    for process in both:
        while state(process) != "Z":
            time.sleep(0.01)
