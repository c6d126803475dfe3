"""Arguments in torch.profiler's forms; values as torch 2.13 reports them."""

from opscope.analysis.torch_listing.argument_lists import (
    concrete_values,
    keyword_values,
    plain_shapes,
    structured_shapes,
    structured_strides,
    type_names,
)
from opscope.timeline.tree.arguments import Arguments
from support.build_trace import build_trace, span, tensor


def inputs(*arguments, keywords=None):
    trace = build_trace([span("f", 0, 1, inputs=arguments, keywords=keywords or {})])
    return Arguments(trace).inputs(0)


MIXED = inputs(
    tensor(2, 3), [tensor(4, dtype="int64"), tensor(5)], 3, 2.5, True, [1, 2], [], None, "same"
)


def test_shapes():
    assert plain_shapes(MIXED) == [[2, 3], [], [], [], [], [], [], [], []]
    assert structured_shapes(MIXED)[:3] == [[2, 3], [[4], [5]], []]
    assert structured_strides(MIXED)[:3] == [[3, 1], [[1], [1]], []]


def test_types():
    assert type_names(MIXED) == [
        "float", "TensorList", "Scalar", "Scalar", "Scalar", "ScalarList", "ScalarList", "", ""
    ]  # fmt: skip
    assert type_names(inputs(tensor(1, dtype="bfloat16"), tensor(1, dtype="bool"))) == [
        "c10::BFloat16",
        "bool",
    ]


def test_values():
    assert concrete_values(MIXED) == [None, None, 3, 2.5, True, [1, 2], [], None, None]


def test_keywords():
    trace = build_trace([span("f", 0, 1, keywords={"stream": 7, "grid": "a", "x": tensor(1)})])

    assert keyword_values(Arguments(trace).keywords(0)) == {"stream": 7, "grid": "a"}
