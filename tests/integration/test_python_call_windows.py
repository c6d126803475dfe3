"""Python calls across several recordings: each sees the functions it began in, and their ends."""

import contextlib
import sys
import threading

import pytest
import torch

import opscope
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from opscope.timeline.tree.node import Tree
from support.recorded import names, parents


def recording(**options):
    return Recording(RecordingOptions(stack=True, **options))


def paths(trace, leaf):
    """For every event called ``leaf``, the functions of this file around it, outermost first."""
    found = []
    for node in Tree(trace).depth_first():
        if node.name != leaf:
            continue
        names = []
        while node.parent is not None:
            node = node.parent
            if "test_python_call_windows.py" in node.name:
                names.append(node.name.rpartition(": ")[2])
        found.append(names[::-1])
    return found


def start(window):
    window.start()


def stop(window):
    window.stop()


def work():
    torch.ones(2).neg()


def test_a_recording_inside_another_sees_functions_of_both_end_and_loses_no_end():
    outer, inner = recording(), recording()

    def begins_in_outer_only():
        inner.start()
        work()

    outer.start()
    begins_in_outer_only()
    work()
    stop(inner)
    outer.stop()

    name = "test_a_recording_inside_another_sees_functions_of_both_end_and_loses_no_end"
    expected = [[name, "begins_in_outer_only", "work"], [name, "work"]]
    assert paths(outer.trace, "aten::neg") == expected
    assert paths(inner.trace, "aten::neg") == expected
    assert outer.trace.ledger["events"]["ends without a start"] == 0


def gradients(trace):
    table = trace.table("parameters")
    return int((table["role"] == 1).sum())


def test_what_a_module_holds_is_read_again_in_every_recording():
    # GIVEN a first recording, not looked at yet, in which a module had no gradients
    model = torch.nn.Linear(2, 2)
    first, second = recording(), recording()
    first.start()
    model(torch.ones(1, 2)).sum().backward()
    first.stop()

    # WHEN it is called in a second
    second.start()
    model(torch.ones(1, 2))
    second.stop()

    # THEN that one knows of the gradients
    assert gradients(first.trace) == 0
    assert gradients(second.trace) == 2


@contextlib.contextmanager
def every_tool_taken():
    """Leaves opscope no way to hear of Python calls on this thread."""
    if sys.version_info < (3, 12):
        sys.setprofile(lambda frame, event, argument: None)
        yield
        sys.setprofile(None)
        return
    free = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is None]
    for tool in free:
        sys.monitoring.use_tool_id(tool, "somebody else")
    yield
    for tool in free:
        sys.monitoring.free_tool_id(tool)


def test_calls_that_go_to_another_tool_are_counted_as_lost():
    window = recording()
    with every_tool_taken():
        start(window)
        work()
        stop(window)

    assert paths(window.trace, "aten::neg") == [[]]
    assert window.trace.ledger["threads"]["dropped: Python calls, which another tool receives"] == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tools have ids from Python 3.12 on")
@pytest.mark.parametrize("taken", [(0, 1, 2, 5), (3, 4)], ids=["named tools", "spare tools"])
def test_other_tools_keep_their_ids_and_we_find_one(taken):
    before = [sys.monitoring.get_tool(tool) for tool in range(6)]
    taken = [tool for tool in taken if before[tool] is None]
    for tool in taken:
        sys.monitoring.use_tool_id(tool, "somebody else")
    window = recording()
    start(window)
    during = [sys.monitoring.get_tool(tool) for tool in range(6)]
    work()
    stop(window)
    for tool in taken:
        sys.monitoring.free_tool_id(tool)

    assert during.count("opscope") == 1
    assert [during[tool] for tool in taken] == ["somebody else"] * len(taken)
    name = "test_other_tools_keep_their_ids_and_we_find_one"
    assert paths(window.trace, "aten::neg") == [[name, "work"]]
    assert [sys.monitoring.get_tool(tool) for tool in range(6)] == before


def test_calls_above_an_annotation_from_before_the_window_keep_what_they_call():
    older = opscope.record_function("older")

    def inner():
        pass

    def outer():
        older.__exit__(None, None, None)
        inner()

    older_profile = opscope.profile()
    older_profile.start()
    older.__enter__()
    with opscope.profile(with_stack=True) as prof:
        outer()
    older_profile.stop()
    found = parents(prof.trace)
    (inside,) = [name for name in found if name.endswith(": inner")]
    assert found[inside].endswith(": outer")


class Blocking(torch.autograd.Function):
    """Its backward waits, in a C function, until somebody else lets go of a lock."""

    @staticmethod
    def forward(context, x, inside, go_on):
        context.events = inside, go_on
        return x * 1

    @staticmethod
    def backward(context, gradient):
        inside, go_on = context.events
        inside.set()
        go_on.acquire()
        return gradient, None, None


def held_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock


def test_a_c_function_that_ended_unrecorded_does_not_run_because_something_else_does():
    entered, let_go, inside = (threading.Event() for _ in range(3))
    go_on = held_lock()

    def stay(number):
        entered.set()
        let_go.wait()
        return number

    def calls_a_c_function():
        return sorted([1], key=stay)

    def run():
        calls_a_c_function()
        x = torch.ones(2, requires_grad=True)
        Blocking.apply(x, inside, go_on).sum().backward()

    with opscope.profile():
        # GIVEN calls that go on when the only recording of calls stops, and that end unheard
        first = recording()
        start(first)
        thread = threading.Thread(target=run)
        thread.start()
        entered.wait()
        stop(first)
        let_go.set()
        inside.wait()

        # WHEN calls are heard again from inside an operator that is heard all the time
        second = recording()
        start(second)
        go_on.release()
        thread.join()
        stop(second)

    # THEN the first recording has the C function and what called it as running at its end
    trace = first.trace
    for name in ("calls_a_c_function", "<built-in function sorted>"):
        [row] = [row for row, one in enumerate(names(trace)) if one.endswith(name)]
        assert trace.events["unfinished"][row], name
