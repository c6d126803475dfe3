"""Saving where the process may have little memory: written or said, and never the program's end."""

import json

import pytest

from support.build_trace import build_trace, span
from support.torch_processes import run_torch

PROGRAM = """
import json, os, resource, sys
import opscope, torch
{prepare}
with opscope.profile(record_shapes=True) as prof:
    for _ in range(3000):
        torch.ones(3).sum()
trace = prof.trace

def limit(name, field, mebibytes):
    number = getattr(resource, name)
    used = int(open("/proc/self/statm").read().split()[field]) * resource.getpagesize()
    room = used + (mebibytes << 20)
    resource.setrlimit(number, (room, room))

ends = []
for mebibytes in (0, 16, 64, 1500):
    child = os.fork()
    if child == 0:
        limit({name!r}, {field}, mebibytes)
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
LIMITS = [("RLIMIT_AS", 0, ""), ("RLIMIT_DATA", 5, "import pyarrow.parquet")]


def ends_of(folder, **what):
    """Of saving with more and more memory: 0 is written, 1 is said; anything else is wrong."""
    build_trace([span("earlier", 0, 1)]).save(folder / "t")
    done = run_torch("-c", PROGRAM.format(**what), cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "terminate called" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("name", "field", "prepare"), LIMITS)
def test_it_is_written_or_said(tmp_path, name, field, prepare):
    assert ends_of(tmp_path, name=name, field=field, prepare=prepare) == [0, 1]
