"""Time by line of the program."""

from __future__ import annotations

import pytest

from opscope.analysis.source_lines import program_lines, source_lines
from opscope.columns.location import Location
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span

TRAIN, LIBRARY = "/home/me/train.py", "/usr/lib/python3/site-packages/torch/nn.py"


def call(function, start, end, *, file, line, caller):
    """A call of ``function`` in ``file`` from ``caller``: its file, the line, its function."""
    frame = (file, line, function)
    return span(function, start, end, kind=EventKind.PYTHON_CALL, frame=frame, caller=caller)


@pytest.fixture
def trace():
    """main() calls step() in line 9 twice; that calls the library in line 3, which calls itself."""
    spans = []
    for begin in (0, 100):
        spans += [
            call("step", begin, begin + 90, file=TRAIN, line=1, caller=(TRAIN, 9, "main")),
            call("run", begin + 10, begin + 70, file=LIBRARY, line=5, caller=(TRAIN, 3, "step")),
            call("inner", begin + 20, begin + 60, file=LIBRARY, line=7, caller=(LIBRARY, 6, "run")),
        ]
    return build_trace(spans)


def test_time_goes_to_the_innermost_line_of_the_program(trace):
    lines = program_lines(trace)
    assert [(line.file, line.line, line.function) for line in lines] == [
        (TRAIN, 3, "step"),
        (TRAIN, 9, "main"),
    ]
    assert [line.time_ns for line in lines] == [120_000, 60_000]
    assert [line.calls for line in lines] == [2, 2]
    assert [line.text for line in lines] == ["", ""]


def test_operators_that_a_line_calls_itself_count_too():
    spans = [
        call("step", 0, 90, file=TRAIN, line=1, caller=(TRAIN, 9, "main")),
        span("aten::add", 10, 30, caller=(TRAIN, 1, "step"), line=4),
        span("aten::mul", 40, 50, caller=(TRAIN, 1, "step"), line=4),
    ]
    trace = build_trace(spans)
    expected = {("main", 9): (1, 60_000), ("step", 4): (2, 30_000)}
    lines = {(one.function, one.line): (one.calls, one.time_ns) for one in program_lines(trace)}
    assert lines == expected
    table = source_lines(trace)
    columns = table.calls.tolist(), table.self_ns.tolist()
    for place, *values in zip(table.places, *columns, strict=True):
        assert tuple(values) == expected[place.function, place.line]
    assert sorted(table.total_ns.tolist()) == [30_000, 90_000]


def test_waiting_is_no_time_of_a_line_but_said():
    wait = "<built-in method acquire of _thread.lock object at 0x7f>"
    trace = build_trace(
        [
            call("get", 0, 100, file=LIBRARY, line=5, caller=(TRAIN, 3, "work")),
            span(wait, 10, 90, kind=EventKind.C_CALL),
            call("run", 200, 230, file=LIBRARY, line=7, caller=(TRAIN, 4, "work")),
        ]
    )
    lines = program_lines(trace)
    assert [(line.line, line.time_ns, line.waiting_ns) for line in lines] == [
        (4, 30_000, 0),
        (3, 20_000, 80_000),
    ]


def called(name, start, end, file, line, function):
    """A call made from a line; C calls have no frame of their own."""
    return span(name, start, end, kind=EventKind.PYTHON_CALL, caller=(file, line, function))


def test_time_in_calls_by_the_line_that_made_them():
    lines = source_lines(
        build_trace(
            [
                called("train", 0, 100, "main.py", 40, "<module>"),
                called("forward", 10, 60, "main.py", 12, "train"),
                span("aten::mm", 20, 50),
                called("helper", 50, 55, "net.py", 3, "forward"),
                called("forward", 70, 80, "main.py", 12, "train"),
            ]
        )
    )
    assert lines.places == [
        Location("main.py", 40, "<module>"),
        Location("main.py", 12, "train"),
        Location("net.py", 3, "forward"),
    ]
    assert lines.calls.tolist() == [1, 2, 1]
    assert lines.total_ns.tolist() == [100_000, 60_000, 5_000]
    assert lines.self_ns.tolist() == [40_000, 55_000, 5_000]
    plain = build_trace([("aten::mm", 0, 1)])
    assert len(source_lines(plain)) == 0 and program_lines(plain) == []


def test_recursion_through_a_line_is_not_counted_twice():
    lines = source_lines(
        build_trace(
            [
                called("visit", 0, 100, "tree.py", 5, "visit"),
                called("other", 10, 90, "tree.py", 9, "visit"),
                called("visit", 20, 80, "tree.py", 5, "visit"),
            ]
        )
    )
    assert [place.line for place in lines.places] == [5, 9]
    assert lines.total_ns.tolist() == [100_000, 80_000]
    assert lines.self_ns.tolist() == [80_000, 20_000]
