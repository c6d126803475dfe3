"""Where one rank spends more than another: the phase, and the line of the program."""

from __future__ import annotations

from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.jobs.rollup.places import find_excess
from support.build_trace import build_trace, span
from support.rolled_up import places_of


def excess_of(slow, other, cause):
    return find_excess(places_of(slow), places_of(other), cause)


PROGRAM = """\
def step(batch):
    clean = batch.relu()
    for word in batch:
        count(word)
    return clean.sum()
"""


def rank_trace(file, slow, operator_us=10):
    """Steps of a function that computes in Python between two operators."""
    own = {"frame": (str(file), 1, "step"), "caller": (str(file), 9, "<module>"), "line": 9}
    spans, at = [], 0.0
    for number in range(6):
        took = 100 if slow else 20
        called = {"caller": (str(file), 1, "step")}
        end = at + 30 + took + 2 * operator_us
        spans += [
            span(f"ProfilerStep#{number}", at, end + 5, step=number),
            span(f"{file}(1): step", at + 1, end, kind=EventKind.PYTHON_CALL, **own),
            span("aten::relu", at + 5, at + 5 + operator_us, line=2, **called),
            span("aten::sum", end - 5 - operator_us, end - 5, line=5, **called),
        ]
        at = end + 10
    return build_trace(spans)


def test_python_of_a_function_is_at_the_line_between_what_it_calls(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    found = excess_of(rank_trace(file, True), rank_trace(file, False), Cause.PYTHON)
    assert (found.place, found.function, found.operator) == (f"{file}:3", "step", "")
    assert found.place_ns == 80_000


def test_of_lines_in_between_it_is_the_one_that_calls_something(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.replace("for word in batch:", "if self.is_slow:"))
    found = excess_of(rank_trace(file, True), rank_trace(file, False), Cause.PYTHON)
    assert found.place == f"{file}:4"


def test_an_operator_is_at_the_line_that_calls_it(tmp_path):
    file = tmp_path / "train.py"
    found = excess_of(
        rank_trace(file, False, operator_us=50), rank_trace(file, False), Cause.OPERATOR
    )
    assert found.operator in ("aten::relu", "aten::sum")
    assert found.place == f"{file}:{2 if found.operator == 'aten::relu' else 5}"


def test_who_spends_no_more_has_no_place(tmp_path):
    file = tmp_path / "train.py"
    assert excess_of(rank_trace(file, False), rank_trace(file, True), Cause.PYTHON) is None
    assert excess_of(build_trace([]), build_trace([]), Cause.PYTHON) is None
