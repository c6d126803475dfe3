"""Loops over parts of a tensor, over many tensors and over modules, on pictures of timelines."""

from __future__ import annotations

import pytest

from opscope.columns.schema import EventKind, RecordScope
from support.build_trace import allocation, build_trace, span, tensor
from support.looping_program import CALLER, PYTHON, found, loop, program

LOOP = ("train.py", 8, "loop")


def test_a_loop_over_the_parts_of_a_tensor_is_at_its_line():
    finding = found(build_trace(program(*loop(20, 3), end=300)), "for-loop-indexing")
    assert finding.places[0].line == 5 and finding.places[0].function == "train"
    assert finding.severity == "high"
    assert finding.places[0].occurrences == 20


def loop_over_parts(elements):
    """Of a loop over parts of so many elements, each call 20 µs where others take 1."""
    part = {"storage": 64, "strides": [2, 1]}
    rounds = [
        span("aten::tanh", 205 + 25 * i, 225 + 25 * i, caller=CALLER, line=5,
             inputs=[tensor(elements // 2, 2, storage_offset=elements * i, **part)])
        for i in range(20)
    ]  # fmt: skip
    others = [
        span("aten::view", 2 * i, 2 * i + 1, caller=CALLER, line=7, inputs=[tensor(8, storage=7)])
        for i in range(100)
    ]
    trace = build_trace(program(*others, *rounds, end=700))
    return found(trace, "for-loop-indexing")


def test_what_short_parts_take_beyond_a_call_is_computing_as_far_as_it_can_be():
    """A call takes 4 µs here, two elements no more than 10 ns, and 4,000 what is left of 20."""
    assert loop_over_parts(2).saved_ns == pytest.approx(19 * 25_000, abs=25_000)
    assert loop_over_parts(4_000) is None


@pytest.mark.parametrize(
    "inner",
    [
        loop(9, 3),  # too few rounds
        loop(20, 3, parts=False),  # the same tensor every time
        loop(20, 900),  # mostly computing
    ],
)
def test_other_loops_are_none(inner):
    trace = build_trace(program(*inner, end=30_000))
    assert found(trace, "for-loop-indexing") is None


@pytest.mark.parametrize(("size", "is_found"), [(8, True), (48, False)])
def test_products_of_the_parts_stay_work_with_any_caller(size, is_found):
    inner = [
        span("aten::mm", i * 5, i * 5 + 5, caller=CALLER, line=5,
             inputs=[tensor(size, size, storage=64, storage_offset=i * size), tensor(size, size)])
        for i in range(20)
    ]  # fmt: skip
    # A product of 48 by 48 is 221,184 operations: of its 5 µs at least 3.4, at 64 a nanosecond.
    finding = found(build_trace(program(*inner, end=100)), "for-loop-indexing")
    assert (finding is not None) == is_found


@pytest.mark.parametrize(("parts", "saved"), [(20, 240 + 40), (3, 240)])
def test_putting_the_results_of_a_loop_together_goes_with_it(parts, saved):
    joining = span("aten::cat", 262, 300, caller=CALLER, line=6, inputs=[[tensor(2)] * parts])
    trace = build_trace(program(*loop(20, 3), joining, end=300))
    finding = found(trace, "for-loop-indexing")
    assert finding.saved_ns / 1000 == pytest.approx(saved, abs=15)


@pytest.mark.parametrize("network_took", [0, 120])
def test_a_loop_around_one_over_parts_is_none_itself(network_took):
    """What else its rounds call stays, such as a network that computes on each batch."""
    rows = ("train.py", 20, "by_row")
    inner = []
    for i in range(12):
        at = 400 * i
        inner.append(span("by_row", at, at + 260, frame=rows, caller=CALLER, line=5, **PYTHON))
        inner += [
            span("aten::mul", at + 13 * j, at + 13 * j + 3, caller=rows, line=21,
                 inputs=[tensor(2, storage=64, storage_offset=40 * i + 2 * j)])
            for j in range(20)
        ]  # fmt: skip
        if network_took:
            batch = tensor(200, 8, storage=96, storage_offset=1_600 * i)
            inner.append(
                span("aten::addmm", at + 265, at + 265 + network_took, caller=CALLER, line=6,
                     inputs=[batch])
            )  # fmt: skip
        else:
            inner.append(span("aten::relu", at + 300, at + 305, caller=CALLER, line=6))
    finding = found(build_trace(program(*inner, end=4_800)), "for-loop-indexing")
    assert [place.line for place in finding.places] == [21]
    assert "20 rounds" in finding.explanation
    assert finding.saved_ns <= 12 * 260_000


def carried(name):
    """A loop in which each round gets what the one before made, by operators of this name."""
    inner, allocations = [], []
    for i in range(40):
        state = tensor(2, storage=100 + i, allocation_id=i, impl=1 + i)
        part = tensor(2, storage=64, storage_offset=2 * i)
        inner.append(span(name, 10 * i, 10 * i + 5, caller=CALLER, line=5, inputs=[state, part]))
        allocations.append(allocation(10 * i + 1, 8, allocation_id=i + 1, address=101 + i))
    return build_trace(program(*inner, end=400), allocations=allocations)


def test_what_needs_the_round_before_saves_half_unless_it_is_linear():
    nonlinear = found(carried("aten::atan2"), "for-loop-indexing")
    assert nonlinear.saved_share == pytest.approx(0.5, abs=0.05)
    assert "each iteration depends on the previous one" in nonlinear.saved_by
    assert found(carried("aten::sub"), "for-loop-indexing").saved_share > 0.85


@pytest.mark.parametrize("name", ["add_", "norm"])
def test_a_loop_over_many_tensors_leaves_what_lists_go_through_too(name):
    inner = [
        span(f"aten::{name}", 10 * i, 10 * i + 2, caller=CALLER, line=5,
             inputs=[tensor(2, storage=64 + i), tensor(2)])
        for i in range(20)
    ]  # fmt: skip
    finding = found(build_trace(program(*inner, end=200)), "tensor-by-tensor")
    assert finding.saved_ns == pytest.approx((192 - 20 * 0.85 * 2) * 1000 * 19 / 20, rel=0.01)


def test_a_loop_of_training_steps_is_none():
    inner = [
        one
        for i in range(20)
        for one in (
            *loop(1, 3, start=i * 50),
            span("Optimizer.step#SGD.step", i * 50 + 20, i * 50 + 30,
                 kind=EventKind.OPTIMIZER_CALL, caller=CALLER, line=6),
        )
    ]  # fmt: skip
    for i, one in enumerate(inner[::2]):
        one.inputs[0]["storage_offset"] = i
    assert found(build_trace(program(*inner, end=1_000)), "for-loop-indexing") is None


def test_where_lines_are_those_of_functions_a_loop_is_found_by_its_operators():
    """torch.profiler's files have of a call no line but that its caller begins at."""
    rounds = [
        span(name, 10 * i + place, 10 * i + place + 0.5, caller=LOOP, line=8)
        for i in range(12)
        for place, name in ((1, "aten::select"), (2, "aten::fill_"))
    ]
    finding = found(
        build_trace([span("loop", 0, 130, frame=LOOP, **PYTHON), *rounds]), "for-loop-indexing"
    )
    assert finding.saved_ns == pytest.approx(11 * 10_000, rel=0.1)
    assert [(place.line, place.function) for place in finding.places] == [(8, "loop")]


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
    assert "20 rounds" in finding.explanation
