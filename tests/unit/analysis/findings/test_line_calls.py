"""What is one call of a line, and what are rounds of a loop in it."""

from __future__ import annotations

import pytest

from opscope.trace.schema import EventKind, RecordScope
from support.build_trace import build_trace, span, tensor
from support.looping_program import CALLER, found, loop, program


def backward_pass(start, end, nodes, line):
    """Nodes that a line has run, where no function of torch's around them was recorded."""
    each, backward = (end - start) / nodes, {"scope": RecordScope.BACKWARD_FUNCTION}
    times = [(start + i * each, start + (i + 1) * each) for i in range(nodes)]
    evaluating = "autograd::engine::evaluate_function: MulBackward0"
    return [
        one
        for begin, end in times
        for one in (
            span(evaluating, begin, end, caller=CALLER, line=line, **backward),
            span("MulBackward0", begin, end, **backward),
        )
    ]


@pytest.mark.parametrize("line", [5, 6])
def test_a_backward_pass_is_one_call_of_a_line_and_no_round_of_the_loop(line):
    """From Python 3.12 on that may be the line of a comprehension, which is no function there."""
    inner = [*loop(20, 3), *backward_pass(300, 400, nodes=20, line=line)]
    finding = found(build_trace(program(*inner, end=400)), "for-loop-indexing")
    assert finding.places[0].line == 5
    assert finding.places[0].occurrences == 20


def test_what_a_line_calls_once_is_no_round_of_the_loop_in_it():
    sum_up = span("aten::stack", 300, 380, caller=CALLER, line=5, inputs=[tensor(2, storage=7)])
    finding = found(build_trace(program(*loop(20, 3), sum_up, end=400)), "for-loop-indexing")
    (place,) = finding.places
    assert (place.line, place.occurrences) == (5, 20)
    assert place.time_ns == 3_000 + 19 * 13_000 + 120_000, "with what puts the parts together"


def test_what_happens_in_a_call_of_a_line_is_no_loop_of_the_line():
    """As where a generator makes what list() takes."""
    takes = span("<built-in list>", 0, 300, kind=EventKind.C_CALL, caller=CALLER, line=5)
    trace = build_trace(program(takes, *loop(20, 3), end=400))
    finding = found(trace, "for-loop-indexing")
    assert [place.line for place in finding.places] == [5]
    assert finding.places[0].occurrences == 20
