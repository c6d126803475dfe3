"""Which lines of the program the kernels are of that torch.compile makes."""

import json
from pathlib import Path

import pytest

from support.torch_processes import run_torch

pytest.importorskip("torch", reason="compiles functions")

PROGRAM = Path(__file__).parents[1] / "programs" / "compiled_lines.py"
CASES = (
    "exception_inside",  # in a child, which is forked before anything was compiled
    "training",
    "left_as_it_was",
    "in_a_thread",
    "dynamic_shapes",
    "forked",
    "nothing_compiled",
    "wrapper_in_cpp",
)
AGAIN = ("training", "with_python_calls", "with_functions")


def run(cases, cache):
    # Some twenty kernels take less with headers that are precompiled.
    headers = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}
    done = run_torch(PROGRAM, *cases, added={**headers, "TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture(scope="module")
def found(cache):
    """By case what was found, with nothing in the cache."""
    return run(CASES, cache)


@pytest.fixture(scope="module")
def again(found, cache):
    """Likewise in a process that finds the first case in the cache."""
    return run(AGAIN, cache)


def lines_of(case):
    return [(graph.split("_")[-1], tuple(lines)) for graph, _, _, lines, _, _ in case["calls"]]


def test_calls_of_training_have_lines_modules_and_times(found):
    forward = [lines for graph, lines in lines_of(found["training"]) if graph == "forward"]
    block = [("first",), ("norm", "relu"), ("second",), ("second",)]
    assert forward == block * 2

    backward = [lines for graph, lines in lines_of(found["training"]) if graph == "backward"]
    named = {name for lines in backward for name in lines}
    assert all(backward)
    assert named == {"first", "relu", "norm", "second"}

    modules = {tuple(modules) for *_, modules, _ in found["training"]["calls"]}
    assert ("blocks.0.first",) in modules
    assert ("blocks.1", "blocks.1.norm") in modules

    case = found["training"]
    assert (case["graphs"], case["coverage"], case["adds_up"]) == (6, 1.0, True)
    assert {calls for _, _, calls, *_ in case["calls"]} == {3}


@pytest.mark.parametrize("case", AGAIN)
def test_code_from_the_cache_has_the_same_places(again, case, found):
    assert again[case]["coverage"] == 1.0
    assert again[case]["adds_up"]
    assert {source for *_, source in again[case]["calls"]} == {"CACHE"}

    def places(of):
        return [(graph, callee, calls) for graph, callee, calls, *_ in of["calls"]]

    assert places(again[case]) == places(found["training"])


def test_the_cache_keeps_the_line_of_each_call(found, again):
    pairs = zip(lines_of(found["training"]), lines_of(again["training"]), strict=True)
    for (_, known), (_, kept) in pairs:
        assert set(kept) <= set(known)


def test_other_programs_are_left_as_they_were_and_have_their_lines(found):
    assert found["left_as_it_was"] == [3, 1, True, True]

    assert {tuple(lines) for _, lines in lines_of(found["wrapper_in_cpp"])} == {("cpp",)}

    empty, was_recorded = found["nothing_compiled"]
    assert was_recorded
    assert empty == {"graphs": 0, "coverage": 1.0, "adds_up": True, "calls": []}


def test_lines_are_known_wherever_code_runs(found):
    for case, line, graphs in (
        ("in_a_thread", "thread", 1),
        ("dynamic_shapes", "dynamic", 3),
        ("forked", "forked", 1),
    ):
        assert found[case]["graphs"] == graphs
        assert {tuple(lines) for _, lines in lines_of(found[case])} == {(line,)}


def test_what_an_exception_leaves_says_so(found):
    if found["exception_inside"] is None:
        pytest.skip("a kernel of this torch that divides by 0 ends the process")
    assert found["exception_inside"] == [[True, True, False, False], 2]
