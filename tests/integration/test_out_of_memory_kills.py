"""The kernel kills a program that takes more memory than its group may have: nothing is lost.

Needs a memory controller in which groups can be made, which takes root; skipped elsewhere.
"""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

import opscope

CONTROLLERS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
LIMIT_BYTES = 700 << 20

PROGRAM = """
import mmap, os, sys, torch, opscope

numbers = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)).cast("Q")
print("runs", flush=True)
sys.stdin.readline()
kept = []
while True:
    for _ in range(200):
        with opscope.record_function("counted"):
            numbers[0] += 1
    kept.append(torch.ones(500_000))
"""


def made_group(parent, limit):
    """A new group below this one; None where none can be made that limits memory."""
    group = parent / f"opscope-test-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        # A folder that is no group, as where groups are mounted below it, has none of their files.
        if (group / "cgroup.procs").exists():
            (group / limit).write_text(str(LIMIT_BYTES))
            return group
    except OSError:
        pass
    group.rmdir()
    return None


def remove_group(group):
    """When the last process in it has ended, which may take the kernel a moment."""
    until = time.monotonic() + 60
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.fixture
def group():
    made = (made_group(parent, limit) for parent, limit in CONTROLLERS)
    group = next((one for one in made if one is not None), None)
    if group is None:
        pytest.skip("no group with a limit of its memory can be made here")
    yield group
    remove_group(group)


@pytest.mark.parametrize("has_keeper", [True, False])
def test_what_was_recorded_before_an_out_of_memory_kill_is_there(tmp_path, group, has_keeper):
    folder, counts, program = tmp_path / "t", tmp_path / "counts", tmp_path / "program.py"
    program.write_text(PROGRAM)
    counts.write_bytes(bytes(4096))
    options = [] if has_keeper else ["--no-keeper"]
    done = subprocess.Popen(
        [sys.executable, "-m", "opscope", "run", *options, "-o", folder, program, counts],
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.readline() == "runs\n"
    done.communicate("go\n", timeout=120)  # until the keeper, too, has ended
    assert done.returncode == -9
    if not has_keeper:
        subprocess.run([sys.executable, "-m", "opscope", "doctor", "--recover", folder], check=True)
    trace = opscope.load(folder)
    recorded = np.count_nonzero(trace.events["name"] == trace.names.find("counted"))
    counted = int(np.frombuffer(counts.read_bytes(), np.uint64)[0])
    assert abs(int(recorded) - counted) <= 1
    assert counted > 1000
    assert has_keeper == ("SIGKILL" in trace.metadata["ended"]["how"])
