"""Python calls across several recordings: each sees the functions it began in, and their ends."""

import torch

from opscope.options import RecordingOptions
from opscope.recording.recorder import Recording
from opscope.tree.node import build_tree


def recording(**options):
    return Recording(RecordingOptions(stack=True, **options))


def paths(trace, leaf):
    """For every event called ``leaf``, the functions of this file around it, outermost first."""
    found = []
    for node in build_tree(trace).depth_first():
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


def test_a_function_that_began_in_an_earlier_recording_ends_in_this_one():
    # GIVEN calls that were running when the first recording stopped: stop() itself
    first = recording()
    start(first)
    work()
    stop(first)

    # WHEN another starts, from frames that take the place of those
    second = recording()
    start(second)
    work()
    stop(second)

    # THEN what follows is not inside the function that started it
    name = "test_a_function_that_began_in_an_earlier_recording_ends_in_this_one"
    assert paths(first.trace, "aten::neg") == [[name, "work"]]
    assert paths(second.trace, "aten::neg") == [[name, "work"]]


def test_a_recording_inside_another_sees_functions_of_both_end():
    outer, inner = recording(), recording()

    def begins_in_outer_only():
        inner.start()
        work()

    outer.start()
    begins_in_outer_only()
    work()
    inner.stop()
    outer.stop()

    name = "test_a_recording_inside_another_sees_functions_of_both_end"
    expected = [[name, "begins_in_outer_only", "work"], [name, "work"]]
    assert paths(outer.trace, "aten::neg") == expected
    assert paths(inner.trace, "aten::neg") == expected


def test_an_end_noted_for_the_inner_recording_is_no_loss_in_the_outer_one():
    outer, inner = recording(), recording()

    def begins_in_outer_only():
        inner.start()

    outer.start()
    begins_in_outer_only()
    inner.stop()
    outer.stop()
    ledger = outer.trace.table("ledger")
    row = list(ledger["what"]).index("ends without a start")
    assert ledger["value"][row] == 0


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


def test_a_module_is_read_once_in_a_recording_although_another_begins():
    model = torch.nn.Linear(2, 2)
    outer, inner = recording(), recording()
    outer.start()
    model(torch.ones(1, 2)).sum().backward()
    inner.start()
    model(torch.ones(1, 2))
    inner.stop()
    outer.stop()
    assert len(outer.trace.table("parameters")) == 2
    assert gradients(outer.trace) == 0
    assert gradients(inner.trace) == 2
