"""The timeline builder itself: parents, steps, arguments and allocations land where described."""

import numpy as np
import pytest

from opscope.columns.schema import EventKind, RecordScope, Role
from support.build_trace import (
    ORIGIN_NS,
    allocation,
    build_trace,
    kernel,
    span,
    tensor,
)


def test_nesting_gives_parents_per_thread():
    trace = build_trace([
        ("outer", 0, 100),
        ("other thread", 5, 95, "worker"),
        ("inner", 10, 40),
        ("leaf", 10, 40),
        ("sibling", 40, 60),
    ])  # fmt: skip
    assert trace.events["parent"].tolist() == [-1, -1, 0, 2, 0]
    assert trace.events["start_ns"][2] == ORIGIN_NS + 10_000
    assert trace.events["duration_ns"].tolist() == [100_000, 90_000, 30_000, 30_000, 20_000]
    assert [trace.names[i] for i in trace.table("threads")["name"]] == ["main", "worker"]


def test_text_form_is_the_same_trace():
    trace = build_trace("""
        ProfilerStep#3          0..50
          aten::mm             1..2.5
        autograd::engine: Mm   10..?     @autograd
    """)
    events = trace.events
    assert [trace.event_name(i) for i in range(3)] == [
        "ProfilerStep#3",
        "aten::mm",
        "autograd::engine: Mm",
    ]
    assert events["step"].tolist() == [3, 3, 3]
    assert events["parent"].tolist() == [-1, 0, -1]
    assert events["unfinished"].tolist() == [False, False, True]
    assert events["duration_ns"].tolist() == [50_000, 1_500, 40_000]
    assert events["kind"][0] == EventKind.ANNOTATION
    assert events["scope"][0] == RecordScope.USER_SCOPE


def test_arguments_become_tensor_and_scalar_rows():
    trace = build_trace([
        span("aten::cat", 0, 1, inputs=[[tensor(2, 3), tensor(4, 3, dtype="int64")], 0]),
        span("fn", 2, 3, inputs=[None], outputs=[tensor(device="cuda:1")], keywords={"alpha": 1.5}),
    ])  # fmt: skip
    tensors, scalars = trace.table("tensors"), trace.table("scalars")
    assert tensors["event"].tolist() == [0, 0, 1]
    assert tensors["element"].tolist() == [0, 1, -1]
    assert [tensors.lists("sizes")[i] for i in range(3)] == [[2, 3], [4, 3], []]
    assert tensors.lists("strides")[0] == [3, 1]
    assert tensors["role"].tolist() == [Role.INPUT, Role.INPUT, Role.OUTPUT]
    assert tensors["device_index"].tolist() == [-1, -1, 1]
    assert [trace.names[i] for i in scalars["value"]] == ["0", "", "1.5"]
    assert [trace.names[i] for i in scalars["keyword"]] == ["", "", "alpha"]


def test_allocations_find_their_span_and_total():
    trace = build_trace(
        [("a", 0, 10), ("b", 2, 5)],
        allocations=[allocation(3, 64), allocation(6, 32), allocation(20, -64)],
    )
    table = trace.table("allocations")
    assert table["event"].tolist() == [1, 0, -1]
    assert table["total_allocated_bytes"].tolist() == [64, 96, 32]
    assert table["action"].tolist() == [0, 0, 1]


def test_python_calls_share_frames_and_modules():
    call = {"kind": EventKind.MODULE_CALL, "module": "Linear_0", "frame": ("m.py", 7, "forward")}
    trace = build_trace([span("nn.Module: Linear_0", 0, 1, **call),
                         span("nn.Module: Linear_0", 2, 3, **call)])  # fmt: skip
    assert trace.table("python_calls")["frame"].tolist() == [0, 0]
    assert len(trace.table("frames")) == 1
    assert trace.names[trace.table("modules")["class_name"][0]] == "Linear"


def test_gpu_links_ledger_and_metadata():
    trace = build_trace(
        [("a", 0, 1), ("b", 2, 3)],
        gpu=[kernel("gemm", 1, 4, launch=0, grid=[2, 1, 1])],
        links=[(0, 1)],
        ledger={"operators": {"recorded": 2}},
        metadata={"host": "h"},
    )
    assert trace.table("gpu")["duration_ns"].tolist() == [3000]
    assert trace.table("gpu").lists("grid")[0] == [2, 1, 1]
    assert trace.table("links")["target"].tolist() == [1]
    assert trace.ledger == {"operators": {"recorded": 2.0}}
    assert trace.metadata == {"host": "h"}


def test_out_of_order_description_is_refused():
    with pytest.raises(ValueError, match="order of start"):
        build_trace([("b", 2, 3), ("a", 0, 1)])


def test_an_empty_description_is_an_empty_trace():
    trace = build_trace([])
    assert len(trace.events) == 0
    assert np.array_equal(trace.end_ns, [])
