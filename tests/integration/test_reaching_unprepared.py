"""Asking programs that never imported opscope: by their own interpreter, from Python 3.14 on."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import opscope
from opscope.cli import main
from opscope.live.control.address import socket_path
from opscope.live.control.injection import reach
from support.processes import run_opscope as command
from support.processes import wait_until
from support.reached_programs import running

pytest_plugins = ["support.reached_programs"]
pytestmark = pytest.mark.usefixtures("runtime")

LOOP = """
    import sys, threading, torch
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    print("ready", flush=True)

    def train():
        while True:
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()

    if "thread" in sys.argv:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    train()
"""
needs_asking = pytest.mark.skipif(
    not hasattr(sys, "remote_exec"), reason="interpreters can be asked from Python 3.14 on"
)


@needs_asking
def test_a_program_that_knows_nothing_of_opscope_is_recorded():
    with running(LOOP, "0") as program:
        for number in range(2):
            done = command("attach", program.pid, "--seconds", "0.3", "--stack", "-o", number)
            assert done.returncode == 0, done.stderr
        assert program.poll() is None
        assert not socket_path(program.pid).exists()  # it is as it was
    for number in range(2):
        trace = opscope.load(str(number))
        names = {trace.names[name] for name in trace.events["name"]}
        assert {"aten::addmm", "aten::mm"} <= names
        assert trace.metadata["process_id"] == program.pid
        assert any("train" in name for name in names)


@needs_asking
def test_a_program_whose_main_thread_waits_in_c_comes_to_no_point_where_it_could():
    with running(LOOP, "0", "thread") as program:
        done = command("attach", program.pid, "--seconds", "0.3", "-o", "taken")
        assert done.returncode == 1
        assert "did not start to listen" in done.stderr and "when it runs Python" in done.stderr
        assert program.poll() is None


@needs_asking
def test_a_program_that_is_stopped_is_reported_to_be():
    with running(LOOP, "0") as program:
        program.send_signal(signal.SIGSTOP)
        done = command("attach", program.pid, "--seconds", "0.3", "-o", "taken")
        assert done.returncode == 1 and "it is stopped (kill -CONT" in done.stderr


@needs_asking
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_that_asks_and_is_ended_leaves_a_program_as_it_was(number):
    with running(LOOP, "0") as program:
        before = threads_and_files(program.pid)
        words = ("attach", str(program.pid), "--seconds", "60", "-o", "taken")
        asking = subprocess.Popen(
            [sys.executable, "-m", "opscope", *words], stderr=subprocess.PIPE, text=True
        )
        assert "recording process" in asking.stderr.readline()
        asking.send_signal(number)
        said = asking.communicate(timeout=60)[1]
        assert ("trace written" in said) == (number != signal.SIGKILL)
        wait_until(lambda: threads_and_files(program.pid) == before, 20)
        assert threads_and_files(program.pid) == before
        assert program.poll() is None


def threads_and_files(process):
    """How many it has; opscope's socket is one of the files."""
    return len(os.listdir(f"/proc/{process}/task")), len(os.listdir(f"/proc/{process}/fd"))


@needs_asking
def test_a_program_that_forbids_it_is_left_alone(monkeypatch):
    monkeypatch.setenv("PYTHON_DISABLE_REMOTE_DEBUG", "1")
    with running(LOOP, "0") as program:
        monkeypatch.delenv("PYTHON_DISABLE_REMOTE_DEBUG")
        done = command("attach", program.pid, "--seconds", "0.3", "-o", "taken")
        assert done.returncode == 1 and "cannot make process" in done.stderr
        assert "OPSCOPE_CONTROL=1" in done.stderr
        assert program.poll() is None


def test_an_interpreter_that_can_be_asked_from_outside_is_asked(runtime, monkeypatch):
    asked = []

    def execute(process, script):
        asked.append(process)
        exec(compile(Path(script).read_text(), script, "exec"), {})

    monkeypatch.setattr(sys, "remote_exec", execute, raising=False)
    with reach(os.getpid()) as asking:
        assert asked == [os.getpid()]
        assert asking.status["process"] == os.getpid()
    wait_until(lambda: not socket_path(os.getpid()).exists(), 20)
    assert not socket_path(os.getpid()).exists()


def test_a_top_that_is_interrupted_leaves_such_an_interpreter_as_it_was(runtime, monkeypatch):
    def execute(process, script):
        exec(compile(Path(script).read_text(), script, "exec"), {})

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "remote_exec", execute, raising=False)
    monkeypatch.setattr("opscope.cli.top.time", SimpleNamespace(sleep=interrupted))
    main(["top", str(os.getpid())])
    wait_until(lambda: not socket_path(os.getpid()).exists(), 20)
    assert not socket_path(os.getpid()).exists()
