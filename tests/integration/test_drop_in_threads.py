"""Under the drop-in, torch.profiler tells of each thread's functions what it tells without."""

from collections import defaultdict

import pytest
import torch
from tests.programs.working_threads import Life, crew_of

import opscope
from support.tree_text import outline

STAYS, ENDS, BEGINS, PASSES = Life
CREWS = [[STAYS], [BEGINS], 2 * [STAYS] + 2 * [ENDS] + [BEGINS, PASSES]]
FUNCTIONS = {"run", "work", "waits_to_begin", "runs_meanwhile", "waits_to_leave"}


def record(lives, works_here):
    """The event tree of torch.profiler, whoever stands beneath it, by thread."""
    with crew_of(lives) as crew:
        crew.start(STAYS, ENDS)
        with torch.profiler.profile(with_stack=True) as prof:
            crew.start(BEGINS, PASSES)
            crew.run(works_here)
            crew.dismiss(ENDS, PASSES)
    threads = defaultdict(list)
    for root in prof.profiler.kineto_results.experimental_event_tree():
        threads[root.start_tid].append(root)
    return threads.values()


def name_of(node):
    """Functions of the program without file and line, modules without number; else ""."""
    if node.name.startswith("nn.Module: "):
        return node.name.rpartition("_")[0]
    function = node.name.rpartition(": ")[2]
    return function if function in FUNCTIONS and "working_threads.py(" in node.name else ""


def outlines(threads):
    return sorted(filter(None, (outline(roots, name_of) for roots in threads)))


def operators(nodes):
    for node in nodes:
        if node.name.startswith("aten::"):
            yield node.name
        yield from operators(node.children)


@pytest.mark.parametrize("lives", CREWS, ids=lambda lives: "-".join(life.name for life in lives))
@pytest.mark.parametrize("works_here", [True, False], ids=["works", "watches"])
def test_functions_of_threads_are_torchs_and_operators_are_of_all_threads(lives, works_here):
    expected = outlines(record(lives, works_here))
    with opscope.drop_in.install():
        threads = record(lives, works_here)

    # THEN functions are those of this thread and of the ones that were there, as in torch
    assert outlines(threads) == expected
    assert len(expected) == 1 + sum(not life.begins for life in lives)
    # AND beyond torch, operators are those of every thread
    working = [list(operators(nodes)) for nodes in threads]
    assert sum("aten::linear" in found for found in working) == len(lives) + works_here
