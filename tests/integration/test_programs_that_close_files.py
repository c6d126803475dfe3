"""Programs that close all files that they might have opened, and open others under their numbers:
nothing is written to those, taken from them or closed, and recording goes on."""

from __future__ import annotations

import signal
import textwrap
import time
from pathlib import Path

import pytest

import opscope
from support.processes import wait_until
from support.torch_processes import run_torch

COMMON = """
import os, signal, socket, subprocess, sys, tempfile, threading, time
import torch, opscope
from opscope import triggers

def work(seconds, step=lambda: None):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.ones(16, 16) @ torch.ones(16, 16)
        step()

class Files:
    '''Of the program, under all numbers that anything of opscope's may have had.'''

    def __init__(self):
        os.closerange(3, 4096)
        folder = tempfile.mkdtemp()
        self.plain, self.counters, self.listening, self.pairs = [], [], [], []
        for number in range(230):
            plain = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
            os.write(plain, b"mine" * 64)
            os.lseek(plain, 0, os.SEEK_SET)
            self.plain.append(plain)
            self.counters.append(os.eventfd(7, os.EFD_NONBLOCK))
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(f"{folder}/{number}.socket")
            listening.listen(1)
            self.listening.append(listening)
            pair = socket.socketpair()
            pair[0].send(b"hello")
            for end in pair:
                end.setblocking(False)
            self.pairs.append(pair)

    def harmed(self):
        found = []
        for descriptor in self.plain:
            try:
                at, text = os.lseek(descriptor, 0, os.SEEK_CUR), os.pread(descriptor, 999, 0)
                found += [] if (at, text) == (0, b"mine" * 64) else [("file", descriptor, at, text)]
            except OSError as error:
                found.append(("file", descriptor, str(error)))
        for descriptor in self.counters:
            try:
                count = os.eventfd_read(descriptor)
                found += [] if count == 7 else [("counter", descriptor, count)]
            except OSError as error:
                found.append(("counter", descriptor, str(error)))
        for one in self.listening:
            try:
                one.getsockname()
            except OSError as error:
                found.append(("listening", one.fileno(), str(error)))
        for one, other in self.pairs:
            try:
                found += [] if other.recv(99) == b"hello" else [("pair", other.fileno())]
                found.append(("pair", one.fileno(), one.recv(99)))
            except BlockingIOError:
                pass
            except OSError as error:
                found.append(("pair", one.fileno(), str(error)))
        return found

folder = sys.argv[1]
"""


def run(program: str, folder: Path) -> str:
    """What it printed; it has to end well, with nothing of its own harmed."""
    done = run_torch("-c", COMMON + textwrap.dedent(program), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "harmed: []" in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_a_profile_with_samples_of_threads(tmp_path: Path) -> None:
    run(
        """
        threads = [threading.Thread(target=work, args=(2,), daemon=True) for _ in range(3)]
        with opscope.profile(with_stack=True) as profile:
            for thread in threads:
                thread.start()
            work(0.5)
            files = Files()
            with opscope.record_function("afterwards"):
                work(1)
                for thread in threads:  # whose files were open
                    thread.join()
                work(0.3)
        profile.trace.save(folder)
        print("harmed:", files.harmed())
        """,
        tmp_path / "t",
    )
    trace = opscope.load(tmp_path / "t")
    (last,) = (e for e in range(len(trace.events)) if trace.event_name(e) == "afterwards")
    samples = trace.table("thread_samples")
    began_ns, took_ns = trace.events["start_ns"][last], trace.events["duration_ns"][last]
    inside = (samples["time_ns"] >= began_ns) & (samples["time_ns"] <= began_ns + took_ns)
    assert inside.sum() > 5  # sampling goes on


def test_a_recording_that_streams(tmp_path: Path) -> None:
    run(
        """
        with opscope.profile(stream_to=folder):
            work(0.3)
            files = Files()
            for _ in range(60_000):  # the file has to grow
                torch.ones(1)
            with opscope.record_function("afterwards"):
                work(0.1)
        print("harmed:", files.harmed())
        """,
        tmp_path / "t",
    )
    trace = opscope.load(tmp_path / "t")
    assert "afterwards" in trace.names
    assert len(trace.events) > 60_000


def test_a_flight_recorder(tmp_path: Path) -> None:
    run(
        """
        waits = [triggers.SlowStep(), triggers.OnSignal("SIGUSR2")]
        with opscope.flight_recorder("9s", directory=folder, triggers=waits) as recorder:
            threads = [threading.Thread(target=work, args=(2,), daemon=True) for _ in range(2)]
            for thread in threads:
                thread.start()
            work(1, recorder.step)
            files = Files()
            work(1.5, recorder.step)
            os.kill(os.getpid(), signal.SIGUSR2)
            for thread in threads:
                thread.join()
            work(0.5, recorder.step)
            recorder.dump("afterwards")
        work(0.1)
        print("harmed:", files.harmed())
        """,
        tmp_path / "dumps",
    )
    wanted, until = {"signal.opscope", "request.opscope"}, time.monotonic() + 60
    while wanted and time.monotonic() < until:  # another process writes them
        names = [path.name for path in (tmp_path / "dumps").glob("*.opscope")]
        wanted -= {name.rpartition("-")[2] for name in names}
        time.sleep(0.1)
    assert not wanted


def test_a_process_that_listens_can_be_reached_again(tmp_path: Path) -> None:
    out = run(
        """
        opscope.listen()
        work(0.3)
        files = Files()
        done = []
        def ask():
            said = ["attach", str(os.getpid()), "--seconds", "0.5", "--output", folder]
            for _ in range(2):
                done.append(subprocess.run([sys.executable, "-m", "opscope", *said]).returncode)
        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            work(0.2)
        again = Files()
        from opscope.live.control.server import stop_listening
        before = time.monotonic()
        stop_listening()
        print("ended within 10 s:", time.monotonic() - before < 10)
        print("codes:", done)
        print("harmed:", again.harmed())
        """,
        tmp_path / "t",
    )
    assert "codes: [0, 0]" in out and "ended within 10 s: True" in out
    assert len(opscope.load(tmp_path / "t").events) > 10


@pytest.mark.parametrize("closed", [0, 2])
def test_a_keeper_of_a_program_without_standard_streams(tmp_path: Path, closed: int) -> None:
    program = f"""
        os.close({closed})
        profile = opscope.profile(stream_to=folder)
        profile.start()
        torch.ones(3)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed(program, tmp_path / "t")
    assert "aten::ones" in opscope.load(tmp_path / "t").names


def test_a_keeper_is_there_for_a_later_recording(tmp_path: Path) -> None:
    program = """
        profile = opscope.profile(
            stream_to=folder, schedule=opscope.schedule(wait=1, warmup=1, active=1, repeat=2)
        )
        profile.start()
        for _ in range(4):
            torch.ones(3)
            profile.step()
        Files()
        time.sleep(1)
        torch.ones(3)
        profile.step()
        torch.zeros(3)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed(program, tmp_path / "t")
    assert "aten::zeros" in opscope.load(tmp_path / "t" / "cycle-2").names


def killed(program: str, folder: Path) -> None:
    """Run it, and wait until somebody has made all traces."""
    done = run_torch("-c", COMMON + textwrap.dedent(program), folder)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not list(folder.rglob(".recording-*")), 60)
    assert not list(folder.rglob(".recording-*")), "nobody has made its trace"
