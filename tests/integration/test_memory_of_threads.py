"""Allocations and frees of every thread, however it is first met, and who was not heard."""

from __future__ import annotations

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402
from opscope import _native  # noqa: E402

BYTES = 4000
COUNT = 20
OPTIONS = [{}, {"with_modules": True, "record_shapes": True}, {"with_stack": True}]


class Adds(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(BYTES // 4)


model, argument = Adds(), torch.ones(BYTES // 4)


def plain():
    for _ in range(COUNT):
        torch.ones(BYTES // 4)


def annotated_by_torch():
    with torch.profiler.record_function("work"):
        plain()


def calls_a_module():
    for _ in range(COUNT // 2):
        model(argument)


def annotated_without_an_operator():
    """A storage is made and freed without any operator."""
    with opscope.record_function("work"):
        for _ in range(COUNT):
            torch.UntypedStorage(BYTES)


def backward():
    leaf = torch.ones(BYTES // 4, requires_grad=True)
    (leaf * 2).sum().backward()


BODIES = [annotated_by_torch, calls_a_module, annotated_without_an_operator, backward]


def heard(prof):
    sizes = prof.trace.table("allocations")["size_bytes"]
    return int((sizes == BYTES).sum()), int((sizes == -BYTES).sum())


def recorded(body, options, begin):
    """What was heard of ``body`` in a thread that ``begin`` makes: allocations and frees."""
    with opscope.profile(profile_memory=True, **options) as prof:
        begin(body)
    return heard(prof), prof.trace.ledger


def here(body):
    body()


def in_a_new_thread(body):
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


class Waiting:
    """A thread that is there before the recording, and works in it."""

    def __init__(self):
        self.go, self.done = threading.Event(), threading.Event()
        self.work = None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.go.wait()
        self.work()
        self.done.set()

    def __call__(self, body):
        self.work = body
        self.go.set()
        self.done.wait()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_thread_allocates_what_the_main_thread_would(body, options):
    body()
    expected, _ = recorded(body, options, here)
    assert expected[0] > 0
    for begin in (in_a_new_thread, Waiting()):
        found, _ = recorded(body, options, begin)
        assert found == expected


@pytest.mark.parametrize("begins_first", [True, False])
def test_a_thread_that_runs_no_operator_frees(begins_first):
    go, box = threading.Event(), []

    def frees():
        go.wait()
        while box:
            del box[0]

    thread = threading.Thread(target=frees)
    if begins_first:
        thread.start()
    with opscope.profile(profile_memory=True) as prof:
        box.extend(torch.ones(BYTES // 4) for _ in range(COUNT))
        if not begins_first:
            thread.start()
        go.set()
        thread.join()
    assert heard(prof) == (COUNT, COUNT)


@torch.jit.script
def scripted(x: torch.Tensor):
    waiting = torch.jit.fork(torch.add, x, 1.0)
    return torch.jit.wait(waiting)


def test_forks_of_torchscript_allocate_what_they_do_and_lost_frees_are_reported():
    """A worker may let go of a result outside any operator, where torch tells nobody."""
    with opscope.profile(profile_memory=True) as prof:
        for _ in range(10 * COUNT):
            scripted(argument)
    allocated, freed = heard(prof)
    assert allocated == 10 * COUNT
    table = prof.trace.table("allocations")
    order = np.lexsort((table["time_ns"], table["address"]))
    address, begins = table["address"][order], table["size_bytes"][order] > 0
    again = int(((address[1:] == address[:-1]) & begins[1:] & begins[:-1]).sum())
    assert prof.trace.ledger["frees"]["dropped: not reported by torch"] == again
    assert allocated - freed >= again
    assert (
        len(set(table["allocation_id"][table["size_bytes"] > 0])) == (table["size_bytes"] > 0).sum()
    )


def test_frees_of_what_was_there_before_are_counted():
    kept = [torch.ones(BYTES // 4) for _ in range(COUNT)]
    with opscope.profile(profile_memory=True) as prof:
        kept.clear()
    assert heard(prof) == (0, 0)
    assert prof.trace.ledger["allocations"]["not reported: frees of older memory"] == COUNT


def test_the_locks_that_a_child_needs_are_known_in_this_torch():
    with opscope.profile():
        pass
    assert not _native.statistics()["hides_locks"]
