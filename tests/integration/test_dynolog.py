"""`dyno gputrace` reaches a program that records with opscope; its daemon is a stand-in."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import opscope
from support.processes import run_opscope, wait_until

HEAD = struct.Struct("=Q32s")


class DynologStandIn:
    """Listens in a folder (``KINETO_IPC_SOCKET_DIR``) as ``dynolog``; written from its sources."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "dynolog"))
        self.registered: list[tuple[int, int, int]] = []
        self.asked: list[tuple[int, int, list[int]]] = []
        self.configuration = ""
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def __enter__(self) -> DynologStandIn:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _answer(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(1 << 16)
            if not data:
                return
            size, kind = HEAD.unpack_from(data)
            content = data[HEAD.size :]
            assert len(content) == size
            word = kind.rstrip(b"\0")
            if word == b"ctxt":
                self.registered.append(struct.unpack("=iiq", content))
                answer = struct.pack("=i", len(self.registered))
            else:
                wanted, count, job = struct.unpack_from("=iiq", content)
                self.asked.append(
                    (wanted, job, list(struct.unpack_from(f"={count}i", content, 16)))
                )
                answer, self.configuration = self.configuration.encode(), ""
            with contextlib.suppress(OSError):  # whoever asked has gone
                self._socket.sendto(HEAD.pack(len(answer), word) + answer, sender)


PROGRAM = """
import os, sys, time, torch
assert os.environ["KINETO_USE_DAEMON"] == "1"  # the program sees what it was given
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + 60
while time.monotonic() < until and not os.path.exists(sys.argv[1]):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    print("ready", flush=True)
    sys.stdout = open(os.devnull, "w")
"""


@pytest.fixture
def daemon():
    with tempfile.TemporaryDirectory(prefix="dyno-") as folder:  # sockets have short names
        with DynologStandIn(Path(folder)) as standing_in:
            standing_in.folder = Path(folder)
            yield standing_in
        left = os.listdir(folder)
    assert left == ["dynolog"]


def run(daemon, tmp_path, configuration):
    """What the program's trace has, its process, and what it said."""
    script, stop = tmp_path / "train.py", tmp_path / "stop"
    script.write_text(PROGRAM)
    environment = {
        **os.environ,
        "KINETO_USE_DAEMON": "1",
        "KINETO_IPC_SOCKET_DIR": str(daemon.folder),
        "SLURM_JOB_ID": "31",
    }
    command = [sys.executable, "-m", "opscope.drop_in", str(script), str(stop)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as program:
        assert program.stdout.readline() == "ready\n"
        daemon.configuration = configuration
        path = tmp_path / f"trace_{program.pid}.json"
        wait_until(lambda: not (not path.exists() and program.poll() is None), 60)
        stop.touch()
        said = program.communicate(timeout=60)[1]
    return opscope.load(path), program.pid, said


def test_a_trace_for_a_time(daemon, tmp_path):
    configuration = (
        f"ACTIVITIES_LOG_FILE={tmp_path}/trace.json\nPROFILE_START_TIME=0\n"
        "ACTIVITIES_DURATION_MSECS=300\nPROFILE_REPORT_INPUT_SHAPES=true\n"
    )
    trace, process, said = run(daemon, tmp_path, configuration)
    assert "aten::addmm" in {trace.names[name] for name in trace.events["name"]}
    assert len(trace.table("tensors"))
    assert daemon.registered[0] == (0, process, 31)
    assert daemon.asked[0][:2] == (2, 31)
    assert daemon.asked[0][2][:2] == [process, os.getpid()]
    assert [one[1] for one in daemon.registered] == [process]  # and Kineto's own client is silent
    assert "trace for Dynolog written to" in said


def test_a_trace_of_some_steps(daemon, tmp_path):
    configuration = (
        f"ACTIVITIES_LOG_FILE={tmp_path}/trace.json\nPROFILE_START_ITERATION=0\n"
        "PROFILE_START_ITERATION_ROUNDUP=1\nACTIVITIES_ITERATIONS=5\n"
    )
    trace, _, _ = run(daemon, tmp_path, configuration)
    names = [trace.names[name] for name in trace.events["name"]]
    assert sum(name == "Optimizer.step#SGD.step" for name in names) >= 5


def test_without_a_daemon_the_program_runs(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch; torch.ones(1).add(1); print('done')")
    done = run_opscope(
        "run",
        "-o",
        tmp_path / "trace",
        script,
        added={
            "KINETO_USE_DAEMON": "1",
            "KINETO_IPC_SOCKET_DIR": str(tmp_path),
        },
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert Path(tmp_path / "trace").is_dir()
    assert [name for name in os.listdir(tmp_path) if name.startswith("dynoconfig")] == []
