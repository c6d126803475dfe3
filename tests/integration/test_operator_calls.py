"""At which line of a Python function an operator was called that no C function is around."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402

TABLE = torch.rand(3, 3)


def line_of(mark):
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def element():
    return TABLE[1, 2] + 1  # element


def in_an_annotation():
    with torch.profiler.record_function("inside"):
        return TABLE * 2  # annotated


def through_a_function():
    return torch.sum(TABLE)


def nested():
    return element()


def placed(trace):
    """(name of operator, function, line) of every row."""
    calls, frames = trace.table("operator_calls"), trace.table("frames")
    functions = [trace.names[frames["function"][row]] for row in calls["caller"]]
    names = [trace.event_name(int(event)) for event in calls["event"]]
    return list(zip(names, functions, calls["caller_line"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("program", "name", "function", "mark"),
    [
        (in_an_annotation, "aten::mul", "in_an_annotation", "annotated"),
        (nested, "aten::add", "element", "element"),
        (nested, "aten::select", "element", "element"),
    ],
)
def test_what_python_calls_itself_has_its_line(program, name, function, mark):
    with opscope.profile(with_stack=True) as profile:
        program()
    assert (name, function, line_of(mark)) in placed(profile.trace)


def test_the_function_that_opened_the_recording_has_lines_too():
    profiles = []

    def opens():
        with opscope.profile(with_stack=True) as profile:
            TABLE + TABLE  # opened
        profiles.append(profile)

    # On a thread of its own, which has nothing open that another one was to end.
    thread = threading.Thread(target=opens)
    thread.start()
    thread.join()
    assert ("aten::add", "opens", line_of("opened")) in placed(profiles[0].trace)


@pytest.mark.parametrize("level", ["with_stack", "with_functions", "with_own_functions"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_function_called_between_two_recordings_within_one_that_the_first_had_has_lines(
    level, elsewhere
):
    """``opscope run --why`` records the start of a program, and later some steps."""
    first, second = (opscope.profile(**{level: True}) for _ in range(2))

    def loop(switch):
        switch()
        TABLE + TABLE  # between

    def main():
        loop(first.stop)
        loop(second.start)

    first.start()
    if elsewhere:
        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
    else:
        main()
    second.stop()
    assert ("aten::add", "loop", line_of("between")) in placed(second.trace)


def test_what_a_c_function_or_an_operator_calls_has_none():
    with opscope.profile(with_stack=True) as profile:
        through_a_function()
        TABLE[1, 2]
    names = [name for name, *_ in placed(profile.trace)]
    assert "aten::sum" not in names  # torch.sum is a C function: its row in python_calls has a line
    assert "aten::as_strided" not in names  # called by aten::select


def test_backward_nodes_and_recordings_without_python_calls_have_none():
    weight = torch.rand(3, requires_grad=True)
    with opscope.profile(with_stack=True) as profile:
        (weight * 2).sum().backward()
    assert not [name for name, *_ in placed(profile.trace) if "Backward" in name]
    with opscope.profile(record_shapes=True) as profile:
        element()
    assert len(profile.trace.table("operator_calls")) == 0
