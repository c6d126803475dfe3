"""Averages by key: counts, sums, order and the ways of grouping."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opscope.analysis.torch_listing.averages import key_averages
from opscope.columns.schema import EventKind
from opscope.timeline.listing import TorchListing
from support.build_trace import build_trace, kernel, span


def us(values):
    return (values / 1000).tolist()


def test_device_work_is_listed_beside_the_operators():
    averages = key_averages(
        build_trace(
            [("aten::mm", 0, 10), ("gemm", 20, 30)],
            gpu=[kernel("gemm", 5, 25, launch=0), kernel("gemm", 40, 50, launch=0)],
        )
    )

    assert averages.names == ["aten::mm", "gemm", "gemm"]
    assert averages.count.tolist() == [1, 2, 1]
    assert us(averages.quantities.device_total_ns) == [30, 30, 0]
    assert us(averages.quantities.cpu_total_ns) == [10, 0, 10]


def test_grouping_by_the_innermost_frames():
    # GIVEN one operator called from two lines of one function, itself called from two places
    frames = {"kind": EventKind.PYTHON_CALL}
    trace = build_trace([
        span("main.py(1): a", 0, 100, **frames),
        span("model.py(5): forward", 1, 40, **frames),
        span("aten::mm", 2, 10),
        span("main.py(9): b", 200, 300, **frames),
        span("model.py(5): forward", 201, 240, **frames),
        span("aten::mm", 202, 210),
    ])  # fmt: skip

    def stacks_of_mm(n):
        averages = key_averages(trace, group_by_stack_n=n)
        assert averages.stacks is not None
        return [s for name, s in zip(averages.names, averages.stacks, strict=True) if "mm" in name]

    assert stacks_of_mm(1) == [["model.py(5): forward"]]
    assert stacks_of_mm(2) == [
        ["model.py(5): forward", "main.py(1): a"],
        ["model.py(5): forward", "main.py(9): b"],
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=30))
def test_sums_agree_with_adding_up_one_by_one(calls):
    # GIVEN events one after the other, some with a child
    spans = []
    for i, (name, inner) in enumerate(calls):
        spans.append(span(name, 10 * i, 10 * i + 8))
        if inner:
            spans.append(span("inner", 10 * i + 1, 10 * i + 1 + inner))
    trace = build_trace(spans)

    averages = key_averages(trace)

    listing = TorchListing(trace)
    for i, name in enumerate(averages.names):
        mine = np.array([trace.event_name(int(row)) == name for row in listing.rows])
        assert averages.count[i] == mine.sum()
        assert averages.quantities.cpu_total_ns[i] == listing.duration_ns[listing.rows[mine]].sum()
        assert averages.quantities.cpu_self_ns[i] == listing.self_ns[listing.rows[mine]].sum()
    assert sorted(set(averages.names)) == sorted({s.name for s in spans})


def test_device_activity_without_events_is_averaged_by_shape_too():
    trace = build_trace([], gpu=[kernel("sgemm", 0, 2), kernel("sgemm", 3, 4)])
    averages = key_averages(trace, group_by_input_shape=True, group_by_overload_name=True)
    assert averages.names == ["sgemm"]
    assert averages.count.tolist() == [2]
