"""Asking programs that run: the commands of the command line, and what they leave behind."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import opscope
from opscope import _native
from opscope.cli.attach import arguments_of
from opscope.errors import ReachError
from opscope.live.control import client, server
from opscope.live.control.address import socket_path
from opscope.recording.streams.detached_trace import trace_of_log
from support.processes import run_opscope as command
from support.processes import run_python, wait_until
from support.reached_programs import running

pytest_plugins = ["support.reached_programs"]
pytestmark = pytest.mark.usefixtures("runtime")

LOOP = """
    import sys, torch, opscope
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    print("ready", flush=True)
    while True:
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def listening():
    server.listen()
    yield os.getpid()
    server.stop_listening()


def names_of(trace):
    return {trace.names[name] for name in trace.events["name"]}


def recorded_of(asking, recorded=()):
    asking.ask("record", recorded=arguments_of(frozenset(recorded)))
    torch.ones(2).add(1)
    log, answer = asking.log_of("hand over")
    return trace_of_log(log, answer["facts"])


def test_a_program_is_recorded_from_outside(runtime):
    with running(LOOP) as program:
        listed = json.loads(command("attach", "--format", "json").stdout)
        own = [row for row in listed if row["pid"] == program.pid]  # other tests have some, too
        assert [row["recording"] for row in own] == ["no"]
        done = command("attach", program.pid, "--seconds", "0.5", "--modules", "-o", "taken")
        assert done.returncode == 0, done.stderr
        status = json.loads(command("attach", "--status", program.pid).stdout)
        assert status["recording"] is False
        assert program.poll() is None
    trace = opscope.load("taken")
    assert {"aten::addmm", "aten::mm"} <= names_of(trace)
    assert len(trace.table("modules")) == 1
    assert trace.metadata["process_id"] == program.pid
    listed = command("attach").stdout.split()
    assert str(program.pid) not in listed  # its socket went with it, or is cleared away


def test_start_and_stop_are_two_commands(runtime):
    with running(LOOP) as program:
        assert command("attach", "--start", program.pid).returncode == 0
        again = command("attach", "--start", program.pid)
        assert again.returncode == 1
        assert "already recording" in again.stderr
        assert command("attach", "--stop", program.pid, "-o", "taken").returncode == 0
        nothing = command("attach", "--stop", program.pid)
        assert "It is not recording" in nothing.stderr
    assert "aten::addmm" in names_of(opscope.load("taken"))


def test_a_recording_that_cannot_begin_leaves_nothing_on(listening, monkeypatch):
    from opscope.live.control import recordings

    def fails(known):
        raise RuntimeError("no place")

    monkeypatch.setattr(recordings.ProcessKnowledge, "begin", fails)
    with client.connect(listening) as asking:
        for word in ("record", "start"):
            with pytest.raises(ReachError, match="no place"):
                asking.ask(word, recorded={})
    assert _native.statistics()["wanted"] == 0


def test_top_shows_one_look_in_a_pipe(runtime):
    with running(LOOP) as program:
        done = command("top", program.pid, "--every", "0.5", "--modules")
        assert done.returncode == 0, done.stderr
        assert json.loads(command("attach", "--status", program.pid).stdout)["recording"] is False
    for shown in (f"process {program.pid}", "steps", "MiB resident", "aten::addmm", "Linear_0"):
        assert shown in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_top_that_is_asked_to_end_gives_the_terminal_back(runtime, number):
    with running(LOOP) as program:
        shown, terminal = pty.openpty()
        looking = subprocess.Popen(
            [sys.executable, "-m", "opscope", "top", str(program.pid), "--every", "0.2"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(terminal)
        text = read_until(shown, b"resident")
        assert ON_ANOTHER_SCREEN in text and BACK not in text
        looking.send_signal(number)
        assert BACK in read_until(shown, BACK)
        assert looking.wait(timeout=60) == (0 if number == signal.SIGINT else -number)
        os.close(shown)
        assert json.loads(command("attach", "--status", program.pid).stdout)["recording"] is False


ON_ANOTHER_SCREEN, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


def read_until(terminal, wanted):
    """What is shown until ``wanted`` is, or nothing more comes."""
    text = b""
    while wanted not in text:
        try:
            text += os.read(terminal, 1 << 16)
        except OSError:  # nobody holds the other end any more
            break
    return text


def test_a_dump_is_asked_for_from_outside(runtime):
    program = """
        import sys, torch, opscope
        with opscope.flight_recorder("30s", directory=sys.argv[1], triggers=[], budget=None):
            x = torch.ones(2)
            x.add(1)
            print("ready", flush=True)
            while True:
                x.add(1)
    """
    with running(program, "1", str(runtime / "dumps")) as process:
        status = json.loads(command("attach", "--status", process.pid).stdout)
        assert status["flight"][0]["level"] == "operators"
        done = command("attach", "--dump", process.pid, "--reason", "to see")
        assert done.returncode == 0, done.stderr
        place = done.stdout.strip()
        wait_until(lambda: os.path.exists(place), 60)
    assert opscope.load(place).metadata["dump"]["detail"] == "to see"


def test_a_process_that_is_stopped_or_holds_the_gil_is_not_waited_for(runtime):
    with running(LOOP) as program:
        os.kill(program.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED)  # a busy machine stops it later
        with pytest.raises(ReachError, match="it is stopped"):
            client.connect(program.pid, answer_s=0.5)
        os.kill(program.pid, signal.SIGCONT)
        client.connect(program.pid).close()
    holds = """
        import ctypes, opscope
        hold = ctypes.PyDLL(None).sleep
        print("ready", flush=True)
        hold(600)
    """
    with running(holds) as program, pytest.raises(ReachError, match="C code holds its GIL"):
        while True:  # it may answer once more before it holds it
            client.connect(program.pid, answer_s=0.5).close()


def test_what_cannot_be_reached_says_what_to_do(runtime):
    with running(LOOP, control="0") as program, pytest.raises(ReachError, match="CONTROL=1"):
        client.connect(program.pid)
    with pytest.raises(ReachError, match="There is no process"):
        client.connect(program.pid)
    bare = """
        import opscope
        print("ready", flush=True)
        import threading
        threading.Event().wait()
    """
    with running(bare) as program, client.connect(program.pid) as asking:
        with pytest.raises(ReachError, match="has not imported torch"):
            asking.ask("record")
        with pytest.raises(ReachError, match="does not know the request 'dance'"):
            asking.ask("dance")


def test_another_version_is_told_so(listening):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(socket_path(listening)))
        connection.sendall(b'{"opscope": 99, "do": "status"}\n')
        assert "version 99" in json.loads(connection.recv(10_000))["error"]


def test_the_end_of_a_process_is_seen_although_its_forked_child_goes_on():
    program = """
        import os, sys, time, opscope
        opscope.listen()
        print("ready", flush=True)
        sys.stdin.readline()
        if child := os.fork():
            print(child, flush=True)
        time.sleep(600)
    """
    with (
        running(program, "", stdin=subprocess.PIPE) as process,
        client.connect(process.pid) as asking,
    ):
        process.stdin.write("\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        try:
            process.kill()
            process.wait()
            with pytest.raises(ReachError, match="has ended"):
                asking.ask("status", limit_s=60)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "said"), [("os._exit(0)", "has ended"), ("os.execvp('sleep', ['sleep', '60'])", "exec")]
)
def test_whoever_records_a_process_does_not_wait_for_one_that_is_gone(tmp_path, end, said):
    program = f"""
        import os, sys, opscope, torch
        print("ready", flush=True)
        sys.stdin.readline()
        {end}
    """
    with running(program, stdin=subprocess.PIPE) as process:
        command = [sys.executable, "-m", "opscope", "attach", str(process.pid), "--seconds", "600"]
        attached = subprocess.Popen(
            [*command, "-o", str(tmp_path / "t")], stderr=subprocess.PIPE, text=True
        )
        assert "recording process" in attached.stderr.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        assert said in attached.communicate(timeout=100)[1]
        assert attached.returncode == 1


def test_whoever_asked_and_is_gone_leaves_nothing_recording(listening):
    asking = client.connect(listening)
    asking.ask("record")
    assert _native.statistics()["wanted"] != 0
    asking.close()
    with client.connect(listening) as other:  # answered after the one that is gone
        assert other.status["recording"] is False


def test_detaching_leaves_the_process_as_it_was(listening):
    def state():
        statistics = _native.statistics()
        return {
            "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "windows": statistics["windows"],
            "wanted": statistics["wanted"],
            "profile function": sys.getprofile(),
            "steps": len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks),
            "torch": torch.autograd._profiler_enabled(),
        }

    everything = ("shapes", "memory", "functions", "modules")
    with client.connect(listening) as asking:
        recorded_of(asking, everything)  # what is made once in a process is made now
    with client.connect(listening):
        before = state()
    before["files"] -= 2  # both sides of that connection
    for _ in range(3):
        with client.connect(listening) as asking:
            assert "aten::add" in names_of(recorded_of(asking, everything))
        client.connect(listening).close()
    wait_until(lambda: state() == before, 20)  # the last connection is closed on both sides in turn
    assert state() == before


def test_the_thread_that_answers_is_in_no_recording():
    program = """
        import gc, os, threading, torch, opscope
        from opscope.live.control import client
        gc.disable()  # a collection holds up the whole program, and is shown whoever began it
        opscope.listen()
        with opscope.profile(with_stack=True) as profile:
            client.connect(os.getpid()).close()
            torch.ones(2).add(1)
        trace = profile.trace
        names = {trace.names[name] for name in trace.events["name"]}
        shown = {name for name in names if "control/" in name or "threading.py" in name}
        assert not {name for name in shown if "server" in name or "_bootstrap" in name}, shown
        threads = {int(thread) for thread in trace.table("threads")["system_thread_id"]}
        assert threads == {threading.get_native_id()}, threads
    """
    # In a process of its own: here other tests may have left threads that run.
    done = run_python("-c", textwrap.dedent(program))
    assert done.returncode == 0, done.stderr


def test_a_forked_child_does_not_listen_and_leaves_its_parent_s_socket(listening):
    child = os.fork()
    if child == 0:
        fine = not server.is_listening() and socket_path(listening).exists()
        server.stop_listening()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    client.connect(listening).close()


def test_listening_ends_with_the_program_and_does_not_keep_it_alive(runtime):
    program = "import opscope; opscope.listen(); opscope.listen(); print('done')"
    done = run_python("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert list((runtime / "opscope").iterdir()) == []


def test_a_program_runs_although_it_cannot_listen(runtime):
    (runtime / "opscope").mkdir(mode=0o777)
    (runtime / "opscope").chmod(0o777)
    done = run_python("-c", "import opscope; print('fine')", added={"OPSCOPE_CONTROL": "1"})
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "OPSCOPE_CONTROL=1 has no effect" in done.stderr


def test_many_starts_and_stops_beside_busy_threads_with_stacks(listening):
    """By hand: 1,000 rounds (OPSCOPE_ROUNDS=1000)."""
    rounds, ending = int(os.environ.get("OPSCOPE_ROUNDS", "15")), threading.Event()

    def work():
        x = torch.ones(4)
        while not ending.is_set():
            for _ in range(20):
                x.add(1).sum()

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(rounds):
            with client.connect(listening, answer_s=60) as asking:
                asking.ask("record", recorded={"with_stack": True})
                log, answer = asking.log_of("hand over")
        trace = trace_of_log(log, answer["facts"])
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert _native.statistics()["wanted"] == 0
    assert trace.ledger["recorder"].get("stopped early by a fault") is None
