"""What is imported late is imported in the middle of the program, where another thread may fork."""

from support.processes import run_python

PROGRAM = """
import sys
import opscope, torch

def record(**options):
    with opscope.profile(**options) as prof:
        torch.ones(3)
    return prof

profiles = [record(), record(record_shapes=True, profile_memory=True, with_stack=True)]
before = set(sys.modules)
for prof in profiles:
    prof.trace
    prof.key_averages().table()
print(*sorted(set(sys.modules) - before))
"""


def test_looking_at_a_trace_imports_nothing():
    ran = run_python("-c", PROGRAM)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == []
