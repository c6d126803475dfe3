"""The module of every event, forward and backward."""

from __future__ import annotations

from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.module_attribution import attribute_to_modules
from support.build_trace import build_trace, span

ENGINE = "autograd::engine::evaluate_function: "
STORE = "torch::autograd::AccumulateGrad"


def module(name, start, end, thread="main"):
    return span(name, start, end, thread, kind=EventKind.MODULE_CALL, module=name)


def forward(name, start, end, number, **options):
    return span(name, start, end, sequence_number=number, **options)


def backward(name, start, end, number, thread="autograd", forward_thread=1):
    """The engine's span and the node in it."""
    numbers = {"sequence_number": number, "forward_thread": forward_thread}
    scope = RecordScope.BACKWARD_FUNCTION
    return [
        span(ENGINE + name, start, end, thread, **numbers),
        span(name, start + 1, end - 1, thread, scope=scope, **numbers),
    ]


def modules(*spans):
    trace = build_trace(spans)
    found = attribute_to_modules(trace)
    return {
        (trace.event_name(e), e): found.name(e) or None
        for e in range(len(spans))
        if trace.events["kind"][e] != EventKind.MODULE_CALL
    }.values(), found


def test_storing_a_gradient_belongs_to_what_computed_it():
    scope = RecordScope.BACKWARD_FUNCTION
    names, _ = modules(
        module("A_0", 0, 10),
        forward("aten::mul", 1, 5, 3),
        *backward("MulBackward0", 20, 30, 3),
        span(ENGINE + STORE, 31, 40, "autograd", forward_thread=1),
        span(STORE, 32, 39, "autograd", scope=scope, forward_thread=1),
        span("aten::add_", 33, 38, "autograd"),
        span(ENGINE + STORE, 41, 50, "autograd", forward_thread=1),
        span("aten::ones", 60, 65, "autograd"),
        span(ENGINE + STORE, 70, 75, "autograd", forward_thread=1),
    )

    assert list(names) == ["A_0"] * 7 + [None, None]


def test_gradients_of_gradients_are_followed_to_the_forward_pass():
    double = backward("MulBackward0", 60, 70, 9, forward_thread=2)
    names, _ = modules(
        module("A_0", 0, 10),
        forward("aten::pow", 1, 5, 3),
        *backward("PowBackward0", 20, 40, 3),
        forward("aten::mul", 22, 30, 9, thread="autograd"),
        *double,
    )

    assert list(names) == ["A_0"] * 6


def test_a_module_called_in_the_backward_pass_is_itself():
    names, found = modules(
        module("Outer_0", 0, 10),
        forward("Checkpoint", 1, 5, 3),
        *backward("CheckpointBackward", 20, 60, 3),
        module("Inner_0", 25, 40, "autograd"),
        span("aten::mm", 26, 30, "autograd"),
    )

    assert list(names)[-1] == "Inner_0"
    assert not found.is_backward[-1]


def test_a_backward_pass_inside_a_module_that_made_none_of_it_belongs_to_the_module():
    names, _ = modules(
        forward("aten::mul", 0, 5, 3),
        module("Penalty_0", 10, 50),
        *backward("MulBackward0", 20, 30, 3, thread="main"),
    )

    assert list(names) == [None, "Penalty_0", "Penalty_0"]


def test_arrows_of_a_trace_stand_in_for_numbers():
    spans = [
        module("A_0", 0, 10),
        span("aten::mul", 1, 5),
        span("MulBackward0", 20, 30, "autograd"),
    ]
    trace = build_trace(spans, links=[(1, 2)])

    assert attribute_to_modules(trace).name(2) == "A_0"
