"""Operations of recorded calls: once per computation, and how much time they explain."""

import pytest

from opscope.analysis.flops import FORMULAS, OperatorCall, count_flops
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span, tensor

MM = [tensor(2, 3), tensor(3, 4)]


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


def flops(name, *arguments):
    """Tuples are shapes, everything else is a scalar argument."""
    shapes = [a if isinstance(a, tuple) else None for a in arguments]
    values = [None if isinstance(a, tuple) else a for a in arguments]
    return FORMULAS[f"aten::{name}"](OperatorCall(shapes, values))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("mm", [(0, 3), (3, 4)], 0),
        ("addbmm", [(2, 4), (5, 2, 3), (5, 3, 4), 1, 1], 240),
        ("_addmm_activation", [(4,), (2, 3), (3, 4), 1, 1, False], 48),
        ("mv", [(2, 3), (3,)], 12),
        ("addmv_", [(2,), (2, 3), (3,), 1, 1], 12),
        ("dot", [(3,), (3,)], 6),
        ("mkldnn_rnn_layer_backward", [(5, 3, 8), (64, 8), (64, 16)], 4 * 15 * 64 * 24),
        ("add", [(2, 3), (2, 3), 1], 6),
        ("add", [(3, 1), (1, 4), 1], 12),
        ("mul", [(2, 3), 2.0], 6),
        ("mul_", [(3,), ()], 3),
        ("add", [(), (), 1], 1),
        ("add", [(1, 3), (0, 3), 1], 0),
    ],
)
def test_products_and_elementwise(name, arguments, expected):
    assert flops(name, *arguments) == expected


def test_a_convolution_of_unknown_padding_is_not_guessed():
    assert flops("conv1d", (2, 4, 9), (6, 4, 3), None, [1], "same", [1], 1) == 2592
    assert flops("conv1d", (2, 4, 9), (6, 4, 3), None, [1], "valid", [1], 1) == 2 * 2 * 7 * 72
    assert flops("conv2d", (2, 4, 9, 8), (6, 4, 3, 3), None, [1, 1]) is None


def test_attention_with_fewer_key_heads_counts_query_heads():
    assert flops(
        "_scaled_dot_product_flash_attention", (1, 8, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2)
    ) == 2 * 8 * 4 * 4 * (2 + 2)


def test_packed_sequences_are_not_guessed():
    assert flops("_flash_attention_forward", (40, 3, 8), (40, 3, 8), (40, 3, 8)) is None
    kernel = flops("_flash_attention_forward", (2, 16, 3, 8), (2, 20, 3, 8), (2, 20, 3, 8))
    assert kernel == 2 * 2 * 3 * 16 * 20 * 16
