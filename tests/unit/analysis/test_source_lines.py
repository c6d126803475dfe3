"""Time by line of the program."""

from __future__ import annotations

from opscope.analysis.source_lines import source_lines
from opscope.columns.location import Location
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span


def call(name, start, end, file, line, function):
    """A call made from a line; C calls have no frame of their own."""
    return span(name, start, end, kind=EventKind.PYTHON_CALL, caller=(file, line, function))


def test_time_in_calls_by_the_line_that_made_them():
    lines = source_lines(
        build_trace(
            [
                call("train", 0, 100, "main.py", 40, "<module>"),
                call("forward", 10, 60, "main.py", 12, "train"),
                span("aten::mm", 20, 50),
                call("helper", 50, 55, "net.py", 3, "forward"),
                call("forward", 70, 80, "main.py", 12, "train"),
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


def test_recursion_through_a_line_is_not_counted_twice():
    lines = source_lines(
        build_trace(
            [
                call("visit", 0, 100, "tree.py", 5, "visit"),
                call("other", 10, 90, "tree.py", 9, "visit"),
                call("visit", 20, 80, "tree.py", 5, "visit"),
            ]
        )
    )
    assert [place.line for place in lines.places] == [5, 9]
    assert lines.total_ns.tolist() == [100_000, 80_000]
    assert lines.self_ns.tolist() == [80_000, 20_000]


def test_without_python_calls_there_are_no_rows():
    assert len(source_lines(build_trace([("aten::mm", 0, 1)]))) == 0
