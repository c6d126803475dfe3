"""Operations of recorded calls: once per computation, and how much time they explain."""

import pytest

from opscope.analysis.flops import count_flops
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span, tensor

MM = [tensor(2, 3), tensor(3, 4)]


def test_only_the_outermost_of_nested_formulas_counts():
    trace = build_trace([
        span("aten::conv1d", 0, 100, inputs=[tensor(1, 2, 9), tensor(4, 2, 3), None, [1], [0], [1],
                                             1]),
        span("aten::convolution", 1, 90, inputs=[tensor(1, 2, 9), tensor(4, 2, 3), None, [1], [0],
                                                 [1], False, [0], 1]),
        span("aten::mm", 2, 80, inputs=[tensor(4, 6), tensor(6, 7)]),
    ])  # fmt: skip

    assert count_flops(trace).flops.tolist() == [2 * 7 * 4 * 2 * 3, 0, 0]


@pytest.mark.parametrize(
    "spans",
    [
        [span("aten::conv1d", 0, 100, inputs=[tensor(1, 2, 9), tensor(4, 2, 3), None, [0], [0],
                                              [1], 1])],
        [span("aten::mm", 0, 100, inputs=[tensor(1 << 30, 1 << 30), tensor(1 << 30, 1 << 30)])],
        [span("aten::mm", 0, 10)],
        [span("aten::mm", 0, 1, inputs=MM, kind=EventKind.ANNOTATION)],
        [],
    ],
)  # fmt: skip
def test_what_has_no_operands_that_an_operator_takes_is_not_covered(spans):
    counts = count_flops(build_trace(spans))

    assert not counts.flops.any() and counts.coverage == 0


def test_coverage_is_the_share_of_operator_time():
    trace = build_trace([
        span("step", 0, 1000, kind=EventKind.ANNOTATION),
        span("aten::linear", 0, 100),
        span("aten::mm", 10, 70, inputs=MM),
        span("aten::relu", 200, 300),
    ])  # fmt: skip

    counts = count_flops(trace)

    assert (counts.covered_ns, counts.operator_ns) == (60_000, 200_000)
    assert counts.coverage == pytest.approx(0.3)


REAL, WRAPPER = {"impl": 1, "storage": 16}, {"impl": 2}


def test_a_wrapper_without_memory_leaves_the_count_to_what_runs_inside():
    trace = build_trace([
        span("aten::mm", 0, 100, inputs=[tensor(2, 3, **WRAPPER), tensor(3, 4, **REAL)]),
        span("aten::mm", 10, 90, inputs=[tensor(20, 3, **REAL), tensor(3, 4, **REAL)]),
    ])  # fmt: skip

    assert count_flops(trace).flops.tolist() == [0, 480]


def test_of_arguments_that_stand_on_those_of_a_caller_the_last_ones_are_its_own():
    wrappers = [tensor(2, 3, **WRAPPER), tensor(3, 4, **WRAPPER)]
    real = [tensor(2, 3, **REAL), tensor(3, 4, **REAL)]
    trace = build_trace([
        span("aten::mm", 0, 100, inputs=wrappers),
        span("aten::mm", 10, 90, inputs=wrappers + wrappers),
        span("aten::mm", 20, 80, inputs=wrappers + real),
        span("aten::mm", 200, 300, inputs=real),
    ])  # fmt: skip

    assert count_flops(trace).flops.tolist() == [0, 0, 48, 48]


def test_an_operator_that_an_exception_left_leaves_the_count_to_what_it_had_done():
    trace = build_trace([
        span("aten::addmm", 0, 100, inputs=[None, *MM], raised=True),
        span("aten::mm", 10, 20, inputs=MM),
    ])  # fmt: skip

    assert count_flops(trace).flops.tolist() == [0, 48]
