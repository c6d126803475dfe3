"""What operators reach, on a machine that computes 1 FLOP and moves 1 byte a nanosecond."""

import pytest

from opscope.analysis.roofline.peaks import Peaks
from opscope.analysis.roofline.roofline import Bound, bytes_moved
from opscope.columns.codes import EventKind
from opscope.errors import UsageError
from opscope.timeline.tree.arguments import Arguments
from support.build_trace import build_trace, kernel, span, tensor

PLAIN = Peaks("a machine", 1, {"float32": 1e9}, [(1, 1e9), (1 << 30, 1e9)])


def rows_of(spans, peaks=PLAIN):
    found = build_trace(spans).roofline(peaks)
    return {row.operator: row for row in found.rows}, found


def test_a_product_is_bound_by_computing():
    rows, found = rows_of([span("aten::mm", 0, 1000, inputs=[tensor(50, 60), tensor(60, 40)])])
    mm = rows["aten::mm"]
    assert (mm.flops, mm.moved_bytes) == (240_000, 4 * (3000 + 2400 + 2000))
    assert (mm.bound, mm.reachable_ns, mm.share) == (Bound.COMPUTE, 240_000, 0.24)
    assert mm.lost_ns == found.lost_ns == 760_000 and found.share == 0.24


def test_elementwise_operators_are_bound_by_memory_and_short_ones_by_being_called():
    rows, _ = rows_of([span("aten::relu", 0, 100, inputs=[tensor(5000)])])
    assert (rows["aten::relu"].bound, rows["aten::relu"].share) == (Bound.MEMORY, 0.4)
    rows, _ = rows_of([span("aten::relu", 0, 5, inputs=[tensor(50)])])
    assert rows["aten::relu"].bound is Bound.CALLS


def test_what_runs_inside_is_counted_once():
    inputs = [tensor(50, 60), tensor(60, 40)]
    rows, found = rows_of(
        [
            span("aten::matmul", 0, 100),
            span("aten::mm", 10, 90, inputs=inputs),
            span("aten::add", 200, 300, inputs=[tensor(9)]),
            span("aten::add_", 210, 290, inputs=[tensor(9)]),
        ]
    )
    assert set(rows) == {"aten::mm", "aten::add"}
    assert (found.covered_ns, found.operator_ns, found.coverage) == (180_000, 200_000, 0.9)


def test_calls_are_distinguished_by_dtype_and_shape():
    peaks = Peaks("m", 1, {"float32": 1e9, "float64": 5e8}, [(1, 1e12), (2, 1e12)])
    double = [tensor(2, 3, dtype="float64"), tensor(3, 4, dtype="float64")]
    spans = [
        span("aten::mm", 0, 100, inputs=[tensor(2, 3), tensor(3, 4)]),
        span("aten::mm", 100, 200, inputs=[tensor(2, 3), tensor(3, 8)]),
        span("aten::mm", 200, 300, inputs=double),
    ]
    mm = rows_of(spans, peaks)[0]["aten::mm"]
    assert (mm.calls, mm.flops) == (3, 48 + 96 + 48)
    assert mm.moved_bytes == 4 * (6 + 12 + 8) + 4 * (6 + 24 + 16) + 8 * (6 + 12 + 8)
    assert mm.reachable_ns == pytest.approx(48 + 96 + 96)


def test_what_is_on_a_device_is_left_out_and_reported():
    inputs = [tensor(8, device="cuda:0")]
    spans = [span("aten::relu", 0, 5, inputs=inputs), span("aten::sum", 5, 9, inputs=[tensor(8)])]
    rows, found = rows_of(spans)
    assert set(rows) == {"aten::sum"}
    assert found.notes == ("1 operators on devices are not included",)


def test_what_launches_work_is_on_a_device_wherever_its_tensors_are():
    """Chrome files do not say where those are."""
    spans = [
        span("aten::relu", 0, 5, inputs=[tensor(8)]),
        span("cudaLaunchKernel", 1, 4, kind=EventKind.RUNTIME_CALL),
        span("aten::sum", 5, 9, inputs=[tensor(8)]),
    ]
    found = build_trace(spans, gpu=[kernel("relu", 4, 6, launch=1)]).roofline(PLAIN)
    assert [row.operator for row in found.rows] == ["aten::sum"]
    assert found.notes == ("1 operators on devices are not included",)


def test_another_host_is_reported():
    trace = build_trace(
        [span("aten::sum", 5, 9, inputs=[tensor(8)])], metadata={"host_name": "elsewhere"}
    )
    assert "recorded on elsewhere" in trace.roofline(PLAIN).notes[0]


def test_shapes_and_an_operator_that_is_known_are_needed():
    with pytest.raises(UsageError, match="--shapes"):
        build_trace("aten::mm 0..10").roofline(PLAIN)
    found = build_trace([span("aten::sort", 0, 5, inputs=[tensor(8)])]).roofline(PLAIN)
    assert (found.rows, found.coverage) == ((), 0.0)


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
