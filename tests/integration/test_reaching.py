"""Asking programs that run: the commands of the command line, and what they leave behind."""

import json
import os
import pty
import signal
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
from opscope.launch.process_end import state_of
from opscope.live.control import client, server
from opscope.live.control.address import socket_path
from opscope.recording.streams.detached_trace import trace_of_log
from support.processes import opscope_here as command
from support.processes import run_python, wait_until
from support.reached_programs import running, running_torch
from support.recorded import names
from support.torch_processes import run_torch
from torture.children import in_child

pytest_plugins = ["support.reached_programs"]
pytestmark = pytest.mark.usefixtures("runtime")

LOOP = """
    import sys, time, torch, opscope
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    print("ready", flush=True)
    while True:
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def program():
    """One that trains, for all tests that leave it as it was."""
    with running_torch(LOOP) as process:
        yield process


@pytest.fixture
def listening():
    server.listen()
    yield os.getpid()
    server.stop_listening()


def recorded_of(asking, recorded=()):
    asking.request("record", recorded=arguments_of(frozenset(recorded)))
    torch.ones(2).add(1)
    log, answer = asking.request_log("hand over")
    return trace_of_log(log, answer["facts"])


def is_recording(program):
    return json.loads(command("attach", "--status", program.pid).stdout)["recording"]


def test_a_program_is_recorded_from_outside(program, tmp_path):
    listed = json.loads(command("attach", "--format", "json").stdout)
    own = [row for row in listed if row["pid"] == program.pid]  # other tests have some, too
    assert [row["recording"] for row in own] == ["no"]
    taken = tmp_path / "taken"
    done = command("attach", program.pid, "--seconds", "0.5", "--modules", "-o", taken)
    assert done.returncode == 0, done.stderr
    assert not is_recording(program) and program.poll() is None
    trace = opscope.load(taken)
    assert {"aten::addmm", "aten::mm"} <= set(names(trace))
    assert len(trace.table("modules")) == 1
    assert trace.metadata["process_id"] == program.pid


def test_start_and_stop_are_two_commands(program, tmp_path):
    assert command("attach", "--start", program.pid).returncode == 0
    again = command("attach", "--start", program.pid)
    assert again.returncode == 1
    assert "already recording" in again.stderr
    assert command("attach", "--stop", program.pid, "-o", tmp_path / "taken").returncode == 0
    nothing = command("attach", "--stop", program.pid)
    assert "It is not recording" in nothing.stderr
    assert "aten::addmm" in names(opscope.load(tmp_path / "taken"))


def test_a_recording_that_cannot_begin_leaves_nothing_on(listening, monkeypatch):
    from opscope.live.control import recordings

    def fails(known):
        raise RuntimeError("no place")

    monkeypatch.setattr(recordings.ProcessKnowledge, "begin", fails)
    with client.connect(listening) as asking:
        for word in ("record", "start"):
            with pytest.raises(ReachError, match="no place"):
                asking.request(word, recorded={})
    assert _native.statistics()["wanted"] == 0


def test_top_shows_one_look_in_a_pipe(program):
    done = command("top", program.pid, "--every", "0.5", "--modules")
    assert done.returncode == 0, done.stderr
    assert not is_recording(program)
    for shown in (f"process {program.pid}", "steps", "MiB resident", "aten::addmm", "Linear_0"):
        assert shown in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_top_that_is_asked_to_end_gives_the_terminal_back(program, number):
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
    assert not is_recording(program)


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


def test_a_dump_is_requested_from_outside(runtime):
    program = """
        import sys, torch, opscope
        with opscope.flight_recorder("30s", directory=sys.argv[1], triggers=[], budget=None):
            x = torch.ones(2)
            x.add(1)
            print("ready", flush=True)
            while True:
                x.add(1)
    """
    with running_torch(program, runtime / "dumps") as process:
        status = json.loads(command("attach", "--status", process.pid).stdout)
        assert status["flight"][0]["level"] == "operators"
        done = command("attach", "--dump", process.pid, "--reason", "to see")
        assert done.returncode == 0, done.stderr
        place = done.stdout.strip()
        wait_until(lambda: os.path.exists(place), 60)
    assert opscope.load(place).metadata["dump"]["detail"] == "to see"


def test_a_process_that_is_stopped_or_holds_the_gil_is_not_waited_for(program):
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(program.pid) == "T")  # a busy machine stops it later
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
    with running(holds) as other, pytest.raises(ReachError, match="C code holds its GIL"):
        while True:  # it may answer once more before it holds it
            client.connect(other.pid, answer_s=0.5).close()


def test_what_cannot_be_reached_says_what_to_do():
    bare = """
        import opscope
        print("ready", flush=True)
        import threading
        threading.Event().wait()
    """
    with running(bare, control="0") as other, pytest.raises(ReachError, match="CONTROL=1"):
        client.connect(other.pid)
    with pytest.raises(ReachError, match="There is no process"):
        client.connect(other.pid)
    with running(bare) as other, client.connect(other.pid) as asking:
        with pytest.raises(ReachError, match="has not imported torch"):
            asking.request("record")
        with pytest.raises(ReachError, match="does not know the request 'dance'"):
            asking.request("dance")
    assert str(other.pid) not in command("attach").stdout.split()  # its socket is cleared away


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
                asking.request("status", limit_s=60)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "said"), [("os._exit(0)", "has ended"), ("os.execvp('sleep', ['sleep', '60'])", "exec")]
)
def test_a_client_does_not_wait_for_a_process_that_is_gone(tmp_path, end, said):
    ends = f"""
        import os, sys, time, opscope, torch
        print("ready", flush=True)
        while not opscope._native.statistics()["wanted"]:
            time.sleep(0.01)
        {end}
    """
    with running_torch(ends) as process:
        done = command("attach", process.pid, "--seconds", "600", "-o", tmp_path / "t")
        assert said in done.stderr
        assert done.returncode == 1


def test_a_client_that_is_gone_leaves_nothing_recording(listening):
    asking = client.connect(listening)
    asking.request("record")
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
            assert "aten::add" in names(recorded_of(asking, everything))
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
    done = run_torch("-c", textwrap.dedent(program))
    assert done.returncode == 0, done.stderr


def test_a_forked_child_does_not_listen_and_leaves_its_parent_s_socket(listening):
    def child():
        assert not server.is_listening() and socket_path(listening).exists()
        server.stop_listening()

    in_child(child)
    client.connect(listening).close()


def test_listening_ends_with_the_program_and_does_not_keep_it_alive(tmp_path):
    program = "import opscope; opscope.listen(); opscope.listen(); print('done')"
    done = run_python("-c", program, added={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert list((tmp_path / "opscope").iterdir()) == []


def test_a_program_runs_although_it_cannot_listen(tmp_path):
    (tmp_path / "opscope").mkdir()
    (tmp_path / "opscope").chmod(0o777)
    control = {"OPSCOPE_CONTROL": "1", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = run_python("-c", "import opscope; print('fine')", added=control)
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert "OPSCOPE_CONTROL=1 has no effect" in done.stderr


def test_many_starts_and_stops_beside_busy_threads_with_stacks(listening):
    """By hand: 1,000 rounds (OPSCOPE_ROUNDS=1000)."""
    rounds, ending = int(os.environ.get("OPSCOPE_ROUNDS", "5")), threading.Event()

    def work():
        x = torch.ones(4)
        while not ending.is_set():
            for _ in range(20):
                x.add(1).sum()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(rounds):
            with client.connect(listening, answer_s=60) as asking:
                asking.request("record", recorded={"with_stack": True})
                log, answer = asking.request_log("hand over")
        trace = trace_of_log(log, answer["facts"])
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    assert _native.statistics()["wanted"] == 0
    assert trace.ledger["recorder"].get("stopped early by a fault") is None
