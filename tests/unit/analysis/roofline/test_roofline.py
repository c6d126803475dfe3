"""What operators reach, on a machine that computes 1 FLOP and moves 1 byte a nanosecond."""

import pytest

from opscope.analysis.roofline.peaks import Peaks
from opscope.analysis.roofline.roofline import Bound
from opscope.columns.codes import EventKind
from opscope.errors import UsageError
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
