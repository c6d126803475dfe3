"""torch.compile and profiles: right counts, nothing compiled again, nothing of ours compiled."""

import json
from pathlib import Path

import pytest

from support.torch_processes import run_torch

torch = pytest.importorskip("torch", reason="compiles functions")

PROGRAM = Path(__file__).parents[1] / "programs" / "profiled_compilations.py"


def test_profiles_of_compiled_functions_count_right_and_compile_nothing_again():
    """By case what was counted, and how many graphs were made meanwhile."""
    done = run_torch(PROGRAM)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {
        "looked_at_inside": [[[0, 1]] * 3, 0],
        "switched_inside": [[[0, 1]] * 3, 0],
        "stepped_inside": [[[2], [2]], 0],
        "around": [[[10, 10]] * 3, 0],
        "threads": [[[80, 80]] * 2, 0],
        "drop_in_inside": [[[0, 1]] * 3, 0],
    }


def test_a_torch_that_changed_is_left_alone():
    program = "import torch._dynamo.trace_rules as r; del r._recompile_re; import opscope\n"
    program += "with opscope.profile() as prof: pass\n"
    program += "print('fine')"
    done = run_torch("-c", program)
    assert done.stdout == "fine\n", done.stderr
