"""Callbacks that find no memory drop what they cannot record, count it, and raise nothing."""

import json

from support.torch_processes import run_torch

START = """
import json, resource, sys, threading
import torch
import opscope
from opscope import _native

def leave(mebibytes):
    pages = int(open("/proc/self/statm").read().split()[0])
    room = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))

def leave_all():
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
"""


def run(program):
    done = run_torch("-c", START + program)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_spans_nested_deeper_than_memory_allows_are_counted():
    found = run("""
spans = (1 << 20) + 2000  # the stack of open spans doubles on the way
one = _native.Annotation("deep")
enter, leave_one = one.__enter__, one.__exit__
torch.ones(2) + 1
with opscope.profile() as prof:
    leave(0)
    for _ in range(spans):
        enter()
    for _ in range(spans):
        leave_one(None, None, None)
    leave_all()
    torch.ones(2) + 1
events = prof.trace.ledger["events"]
recorded = (prof.trace.events["name"] == prof.trace.names.find("deep")).sum()
print(json.dumps([int(recorded), events["dropped: memory budget"], spans]))
""")
    recorded, dropped, spans = found
    assert recorded > 0 and dropped > 0
    assert recorded + dropped == spans


def test_calls_without_memory_harm_no_program():
    found = run("""
sys.setrecursionlimit(100_000)
layer = torch.nn.Linear(4, 4)
x = torch.ones(2, 4)
layer(x).sum().backward()

def descend(depth):
    return 0 if depth == 0 else 1 + descend(depth - 1)

threads = [threading.Thread(target=lambda: layer(x).sum()) for _ in range(4)]
with opscope.profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
    leave(2)
    results = [descend(1000) for _ in range(30)]
    for _ in range(2000):
        try:
            layer(x).sum().backward()
        except (MemoryError, RuntimeError):  # torch's own need
            pass
    leave_all()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert results == [1000] * 30
ledger = prof.trace.ledger
print(json.dumps([len(prof.trace.events), ledger["events"]["dropped: memory budget"]]))
""")
    assert found[0] > 0
