"""``record_function`` in what torch.compile compiles: no graph breaks, and nothing else is lost."""

import json
from pathlib import Path

import pytest

from support.processes import output_of, run_python
from support.torch_processes import run_torch

pytest.importorskip("torch", reason="compiles functions")

PROGRAM = Path(__file__).parents[1] / "programs" / "annotated_compilations.py"
CASES = ("full_graphs", "eager", "around", "break_inside", "fall_back", "kept")


@pytest.fixture(scope="module")
def found():
    """By case what was found."""
    done = run_python(PROGRAM, *CASES, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_annotations_break_no_graph_and_are_recorded_where_nothing_is_compiled(found):
    assert found["full_graphs"] == [[1, True]] * 5

    assert found["eager"] == [
        ["inside", "nested"],
        ["decorated"],
        ["made before"],
        ["forward", "a method", "an attribute"],
    ]

    assert found["around"] == ["around", "decorated"]

    assert found["break_inside"] == [2, True]

    assert found["fall_back"] == ["inside", "nested"]


def test_torchs_compiler_may_be_imported_first(found):
    done = run_torch(PROGRAM, "full_graphs")
    assert json.loads(done.stdout.splitlines()[-1])["full_graphs"] == found["full_graphs"]


def test_it_is_kept_in_the_graph_where_torch_keeps_its_own(found):
    if found["kept"] is None:
        pytest.skip("this torch cannot keep annotations in its graphs")
    assert found["kept"] == ["inside", "nested"]


def test_torchs_compiler_is_not_imported_for_it():
    program = "import torch, opscope, sys; before = 'torch._dynamo' in sys.modules\n"
    program += "with opscope.record_function('eager'): pass\n"
    program += "print(before or 'torch._dynamo' not in sys.modules)"
    assert output_of(program) == "True\n"


def test_a_torch_that_changed_is_left_alone():
    # What this builds on is torch's own; without it graphs break as for any unknown object.
    program = "import torch._dynamo.decorators as d; del d.substitute_in_graph; import opscope\n"
    program += "with opscope.record_function('still works'): print('fine')"
    assert run_torch("-c", program).stdout == "fine\n"
