"""Bytes that operators move at least, counted by hand."""

import pytest

from opscope.analysis.roofline.traffic import bytes_moved
from opscope.timeline.tree.arguments import Arguments
from support.build_trace import build_trace, span, tensor


def moved(name, *inputs):
    trace = build_trace([span(name, 0, 1, inputs=inputs)])
    return bytes_moved(name, Arguments(trace).inputs(0))


@pytest.mark.parametrize(
    ("name", "inputs", "elements"),
    [
        ("aten::mm", [tensor(2, 3), tensor(3, 5)], 6 + 15 + 10),
        ("aten::addmm", [tensor(5), tensor(2, 3), tensor(3, 5)], 5 + 6 + 15 + 10),
        ("aten::bmm", [tensor(7, 2, 3), tensor(7, 3, 5)], 7 * (6 + 15 + 10)),
        ("aten::add", [tensor(4, 1), tensor(1, 8)], 4 + 8 + 32),
        ("aten::add", [tensor(4, 8), 2], 32 + 32),
        ("aten::add_", [tensor(4, 8), tensor(4, 8)], 3 * 32),
        ("aten::relu", [tensor(4, 8)], 64),
        ("aten::sum", [tensor(4, 8)], 32),
        ("aten::copy_", [tensor(4, 8), tensor(4, 8)], 64),
        ("aten::zero_", [tensor(4, 8)], 32),
        ("aten::cat", [[tensor(4), tensor(6)]], 20),
        ("aten::_foreach_add_", [[tensor(4), tensor(6)], [tensor(4), tensor(6)]], 30),
        ("aten::relu", [tensor(0, 8)], 0),
        ("aten::relu", [tensor(8, dtype="bfloat16")], 8),
        # What an expanded tensor repeats is read once.
        ("aten::add", [tensor(4, 8), tensor(4, 8, strides=[0, 1])], 32 + 8 + 32),
    ],
)
def test_by_hand(name, inputs, elements):
    assert moved(name, *inputs) == 4 * elements


def test_of_other_operators_and_of_more_than_can_be_addressed_nothing_is_known():
    assert moved("aten::sort", tensor(8)) is None
    assert moved("aten::mm", tensor(2, 3)) is None
    assert moved("aten::relu") is None
    assert moved("aten::mm", tensor(10**9, 10**9), tensor(10**9, 10**9)) is None
