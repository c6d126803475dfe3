"""Averages by key: counts, sums, order and the ways of grouping."""

from opscope.analysis.torch_listing.averages import key_averages
from support.build_trace import build_trace, kernel


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
    assert us(averages.quantities["device_total_ns"]) == [30, 30, 0]
    assert us(averages.quantities["cpu_total_ns"]) == [10, 0, 10]
    trace = build_trace([], gpu=[kernel("sgemm", 0, 2), kernel("sgemm", 3, 4)])
    averages = key_averages(trace, group_by_input_shape=True, group_by_overload_name=True)
    assert (averages.names, averages.count.tolist()) == (["sgemm"], [2])
