"""Programs in containers, which all have the same process numbers, and a folder that they share."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import opscope
from opscope.errors import LifecycleError
from opscope.recording import segments
from opscope.recording.recovered import about_of, recover_file
from opscope.recording.segments import draining
from opscope.storage.manifest import unfinished_recordings
from support.recorded import count

OPSCOPE = [sys.executable, "-m", "opscope"]
IN_A_CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
WORK = """
import os, sys, torch
def work(calls):
    x = torch.ones(4)
    for _ in range(calls):
        x.add_(1)
def until_told():
    print("ready", flush=True)
    sys.stdin.readline()
"""


def can_have_containers():
    tried = subprocess.run([*IN_A_CONTAINER, "true"], check=False, capture_output=True)
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not can_have_containers(), reason="no containers can be made here")


@contextmanager
def container(*command, **environment):
    """A program that is process 1 of its own; it has said that it is ready, and may be told to go
    on."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [*IN_A_CONTAINER, *map(str, command)]
    environment = {**os.environ, **environment}
    with subprocess.Popen(words, env=environment, text=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            yield process
        finally:
            process.kill()


def kill(process):
    """The first process of the container, and so all that is in it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    process.communicate()


def tell(process):
    process.stdin.write("go on\n")
    process.stdin.flush()


def recorded(folder, *options, calls, mark="", then=""):
    """The words of a command that records a program with so many calls."""
    code = (
        f"{WORK}\nwith torch.profiler.record_function('{mark}'):\n    work({calls})\nuntil_told()\n"
    )
    return [*OPSCOPE, "run", *options, "-o", folder, "-c", f"{code}{then}"]


def recover(folder):
    return subprocess.run(
        [*OPSCOPE, "doctor", "--recover", folder],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_of_two_lives_the_folder_shows_the_later_and_the_other_is_left(tmp_path):
    for calls in (10, 20):
        with container(*recorded(tmp_path, calls=calls)) as process:
            kill(process)
    first, _ = unfinished_recordings(tmp_path)
    done = recover(tmp_path)
    assert done.returncode == 0 and f"{first.name} is a recording of rank 0 by an earlier run" in (
        done.stderr.replace("\n", " ")
    )
    assert count(opscope.load(tmp_path), "aten::add_") == 20
    assert unfinished_recordings(tmp_path) == [first]


def test_a_new_job_takes_nothing_of_an_earlier_one_for_its_own(tmp_path, monkeypatch):
    with container(*recorded(tmp_path, "--children", calls=3000, mark="life 1")) as process:
        kill(process)
    (first,) = unfinished_recordings(tmp_path)
    monkeypatch.setattr(segments, "RECORDS", 1000)
    monkeypatch.setattr(segments, "MARGIN_NS", 0)
    with draining(first):
        segments.Drain(first, about_of(first)["prefixes"]).next()
    with container(*recorded(tmp_path, "--children", calls=77, mark="life 2")) as process:
        kill(process)
    assert first in unfinished_recordings(tmp_path)
    assert "earlier run" in recover(tmp_path).stderr
    trace = opscope.load(tmp_path)
    assert [count(trace, name) for name in ("aten::add_", "life 1", "life 2")] == [77, 0, 1]
    assert unfinished_recordings(tmp_path) == [first]


def test_what_runs_in_a_container_is_not_recovered_from_outside(tmp_path):
    then = "work(500)\nuntil_told()\n"
    with container(*recorded(tmp_path, calls=500, then=then)) as process:
        (path,) = unfinished_recordings(tmp_path)
        with pytest.raises(LifecycleError, match="still runs, maybe in a container"):
            recover_file(path)
        tell(process)
        assert process.stdout.readline() == "ready\n"
        kill(process)
    assert count(recover_file(path)[0], "aten::add_") == 1000


def test_ranks_of_equal_process_numbers_have_a_recording_each(tmp_path):
    then = "work(500)\nos.kill(os.getpid(), 9)\n"
    size = {"WORLD_SIZE": "2"}
    with (
        container(*recorded(tmp_path, calls=500, then="work(500)"), RANK="0", **size) as zero,
        container(*recorded(tmp_path, calls=500, then=then), RANK="1", **size) as one,
    ):
        assert len(unfinished_recordings(tmp_path)) == 2
        one.communicate("go on\n")
        assert zero.poll() is None
        zero.communicate("go on\n")
    recover(tmp_path)
    for rank in (0, 1):
        assert count(opscope.load(tmp_path, rank=rank), "aten::add_") == 1000


SANDBOXED = """
import os, subprocess, sys
child = "import os, torch; x = torch.ones(4); [x.add_(1) for _ in range(%d)]; os._exit(0)"
hide = "mount -t tmpfs none /dev/shm -o ro; umount -l /proc 2>/dev/null; exec \\"$@\\""
words = ["unshare", "--pid", "--fork", "--mount", "sh", "-c", hide, "sh", sys.executable, "-c"]
running = [subprocess.Popen([*words, child % calls]) for calls in (30, 40)]
for one in running:
    one.wait()
import torch
torch.ones(1)
"""


def test_children_in_sandboxes_are_recorded_like_others(tmp_path):
    """Which have numbers of their own, and neither ``/proc`` nor shared memory."""
    (tmp_path / "p.py").write_text(SANDBOXED)
    folder = tmp_path / "t"
    command = [*OPSCOPE, "run", "--children", "-o", folder, tmp_path / "p.py"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    job = opscope.Job(folder)
    counts = [count(job[part], "aten::add_") for part in job.parts]
    assert sorted(counts) == [0, 30, 40], done.stderr
