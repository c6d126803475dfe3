"""Operators inside operators are left out where nobody wants them, and nowhere else."""

import collections
import os
import threading

import pytest
import torch

from opscope import _native
from opscope.recording.bridge import bridge
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from support.recorded import names, without_collections

OUTERMOST = RecordingOptions(inner_operators=False, gc_pauses=False)
MODEL = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


@pytest.fixture(autouse=True)
def bridged():
    bridge.load()
    if not _native.statistics()["can_skip_inner"]:
        pytest.skip("not with this torch")
    yield
    assert _native.statistics()["wanted"] == 0


def forward():
    return MODEL(torch.ones(2, 4)).sum()


def recorded(program, options=OUTERMOST):
    recording = Recording(options)
    with without_collections():
        recording.start()
        try:
            program()
        finally:
            recording.stop()
    return recording.trace


def depths_of_operators(trace):
    """How many operators each operator is in."""
    events, found = trace.events, []
    for row in range(len(events)):
        depth, parent = 0, events["parent"][row]
        while parent >= 0:
            depth += events["kind"][parent] == 0
            parent = events["parent"][parent]
        found.append(depth)
    return found


class Doubling(torch.autograd.Function):
    """What it runs in its backward pass is for others to say."""

    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_operators_in_operators_are_not_recorded_and_outermost_ones_all_are():
    everything = recorded(forward, RecordingOptions(gc_pauses=False))
    outermost = [
        name
        for name, depth in zip(names(everything), depths_of_operators(everything), strict=True)
        if depth == 0
    ]
    trace = recorded(forward)
    assert names(trace) == outermost
    assert set(depths_of_operators(trace)) == {0}
    assert len(everything.events) > len(outermost)


def test_what_somebody_annotates_inside_an_operator_is_there():
    class Annotated(Doubling):
        @staticmethod
        def backward(ctx, gradient):
            with torch.profiler.record_function("inside"):
                return gradient * 2

    x = torch.ones(2, requires_grad=True)
    assert "inside" in names(recorded(lambda: Annotated.apply(x).sum().backward()))


def test_an_exception_inside_an_operator_ends_it():
    def program():
        with pytest.raises(RuntimeError):
            torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5))
        torch.ones(2).add(1)
        forward()

    found = names(recorded(program))
    assert found[found.index("aten::add") :].count("aten::linear") == 2
    assert "aten::addmm" not in found


def test_a_window_that_wants_all_has_all_of_the_operators_that_begin_in_it():
    less, more = Recording(OUTERMOST), Recording(RecordingOptions(gc_pauses=False))
    less.start()
    forward()
    more.start()
    forward()
    more.stop()
    forward()
    less.stop()
    assert names(more.trace).count("aten::addmm") == 2
    assert names(less.trace).count("aten::linear") == 6
    assert names(less.trace).count("aten::addmm") == 2


class Opening(Doubling):
    """Opens a window that wants all in the middle of a node, and closes it there or later."""

    window: Recording

    @staticmethod
    def backward(ctx, gradient):
        Opening.window.start()
        return gradient.add(1)


def test_a_window_opened_inside_an_operator_hears_the_rest_of_it():
    Opening.window = Recording(RecordingOptions(gc_pauses=False))
    x = torch.ones(2, requires_grad=True)
    less = Recording(OUTERMOST)
    less.start()
    Opening.apply(x).sum().backward()
    Opening.window.stop()
    forward()
    less.stop()
    assert "aten::add" in names(Opening.window.trace)
    assert "aten::addmm" not in names(less.trace)
    assert names(less.trace).count("aten::linear") == 2


def test_who_else_listens_hears_everything():
    less = Recording(OUTERMOST)
    less.start()
    with torch.profiler.profile() as prof:
        forward()
    forward()
    less.stop()
    heard = [event.name for event in prof.events()]
    assert heard.count("aten::addmm") == 2
    assert names(less.trace).count("aten::addmm") <= 2  # heard as long as somebody else listens


def test_windows_that_come_and_go_beside_threads_lose_no_outermost_operator():
    is_over = threading.Event()
    counts = [0] * 4

    def work(place):
        while not is_over.is_set():
            forward()
            counts[place] += 1

    def program():
        threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            other = Recording(RecordingOptions(gc_pauses=False))
            other.start()
            torch.ones(1)
            other.stop()
        is_over.set()
        for thread in threads:
            thread.join()

    found = collections.Counter(names(recorded(program)))
    assert found["aten::linear"] == 2 * sum(counts)


def test_a_forked_child_inside_an_operator_goes_on():
    class Forking(Doubling):
        @staticmethod
        def backward(ctx, gradient):
            Forking.child = os.fork()
            if Forking.child == 0:
                os._exit(0 if float(forward()) == float(forward()) else 1)
            return gradient * 1

    x = torch.ones(2, requires_grad=True)
    trace = recorded(lambda: (Forking.apply(x).sum().backward(), forward()))
    assert os.waitstatus_to_exitcode(os.waitpid(Forking.child, 0)[1]) == 0
    assert names(trace).count("aten::linear") == 2


@torch.library.custom_op("opscope_test::turns_off", mutates_args=())
def turns_off(x: torch.Tensor) -> torch.Tensor:
    torch._C._autograd._enable_record_function(False)
    return x.clone()


def test_callbacks_that_were_turned_off_inside_an_operator_stay_off():
    def program():
        # By its name: called as an object, it goes around the dispatcher of torch 2.15, unreported.
        torch.ops.opscope_test.turns_off(torch.ones(1))
        torch.ones(1).sub(1)
        torch._C._autograd._enable_record_function(True)
        torch.ones(1).add(1)

    found = names(recorded(program))
    assert "opscope_test::turns_off" in found
    assert "aten::add" in found
    assert "aten::sub" not in found
