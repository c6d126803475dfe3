"""Saving where the process may have little memory: written or said, and never the program's end."""

import json
import subprocess
import sys

import pytest

import opscope
from support.build_trace import build_trace, span

PROGRAM = """
import json, os, resource, sys
import opscope, torch
{prepare}
with opscope.profile(record_shapes=True) as prof:
    for _ in range(3000):
        torch.ones(3).sum()
trace = prof.trace

def limit(name, field, mebibytes, is_hard):
    number = getattr(resource, name)
    used = int(open("/proc/self/statm").read().split()[field]) * resource.getpagesize()
    room = used + (mebibytes << 20)
    resource.setrlimit(number, (room, room if is_hard else resource.getrlimit(number)[1]))

ends = []
for mebibytes in range({first}, 100, 12):
    child = os.fork()
    if child == 0:
        limit({name!r}, {field}, mebibytes, {is_hard})
        try:
            trace.save("t")
            code = 0
        except opscope.errors.InsufficientMemoryError as error:
            code = 1 if "memory" in str(error) else 2
        os._exit(code)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    left = [name for name in os.listdir("t") if name.startswith(".")]
    ends.append(3 if left else 0)
    whole = len(opscope.load("t").events)
    ends.append(0 if whole in (1, len(trace.events)) else 4)
print(json.dumps(sorted(set(ends))))
"""
LIMITS = [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)]


def ends_of(folder, **what):
    """Of saving with more and more memory: 0 is written, 1 is said; anything else is wrong."""
    build_trace([span("earlier", 0, 1)]).save(folder / "t")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**what)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "terminate called" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("name", "field"), LIMITS)
@pytest.mark.parametrize("prepare", ["", "import pyarrow.parquet"])
def test_it_is_written_or_said(tmp_path, name, field, prepare):
    ends = ends_of(tmp_path, name=name, field=field, prepare=prepare, is_hard=True, first=0)
    assert ends in ([0, 1], [0])


@pytest.mark.parametrize(("name", "field"), LIMITS)
def test_a_limit_that_may_be_raised_keeps_nothing_from_being_written(tmp_path, name, field):
    first = 16  # starting a process takes some
    ends = ends_of(tmp_path, name=name, field=field, prepare="", is_hard=False, first=first)
    assert ends == [0]
    assert len(opscope.load(tmp_path / "t").events) > 3000


def test_what_cannot_be_written_is_said_as_ever(tmp_path):
    (tmp_path / "file").touch()
    program = """
import resource, opscope, torch
with opscope.profile() as prof:
    torch.ones(3)
trace = prof.trace
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
room = used + (32 << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    trace.save("file")
except opscope.errors.UsageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "file is a file, and a trace is a folder. Choose another path.\n"
