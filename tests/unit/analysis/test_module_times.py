"""What modules cost, forward and backward."""

from __future__ import annotations

from opscope.analysis.module_times import module_times
from opscope.columns.schema import EventKind, RecordScope
from support.build_trace import build_trace, kernel, span


def module(name, start, end):
    return span(name, start, end, kind=EventKind.MODULE_CALL, module=name)


def test_inner_modules_are_rows_of_their_own_with_their_path():
    times = module_times(
        build_trace(
            [
                module("Net_0", 0, 100),
                module("Linear_0", 10, 30),
                span("aten::linear", 12, 28),
                module("Linear_0", 40, 50),
                module("Linear_0", 200, 205),
            ]
        )
    )
    assert times.paths == [("Net_0",), ("Net_0", "Linear_0"), ("Linear_0",)]
    assert times.calls.tolist() == [1, 2, 1]
    assert times.total_ns.tolist() == [100_000, 30_000, 5_000]
    assert times.self_ns.tolist() == [70_000, 30_000, 5_000]


def test_backward_counts_for_the_module_whose_forward_made_it():
    times = module_times(
        build_trace(
            [
                module("Net_0", 0, 50),
                module("Linear_0", 10, 30),
                span("aten::linear", 12, 28, sequence_number=7),
                span("aten::relu", 31, 40, sequence_number=8),
                span(
                    "ReluBackward0", 60, 65, "autograd", sequence_number=8, forward_thread=1,
                    scope=RecordScope.BACKWARD_FUNCTION,
                ),
                span(
                    "AddmmBackward0", 70, 90, "autograd", sequence_number=7, forward_thread=1,
                    scope=RecordScope.BACKWARD_FUNCTION,
                ),
            ]
        )
    )  # fmt: skip
    assert dict(zip(times.paths, times.backward_ns.tolist(), strict=True)) == {
        ("Net_0",): 5_000,
        ("Net_0", "Linear_0"): 20_000,
    }


def test_device_work_counts_for_all_modules_around_its_launch():
    times = module_times(
        build_trace(
            [module("Net_0", 0, 50), module("Linear_0", 10, 30), span("aten::linear", 12, 28)],
            gpu=[kernel("gemm", 20, 27, launch=2)],
        )
    )
    assert times.device_ns.tolist() == [7_000, 7_000]
    assert len(module_times(build_trace([("aten::mm", 0, 1)]))) == 0
