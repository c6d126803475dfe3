"""Events in torch's shape: made by hand, and read from a trace."""

import copy
import pickle

import pytest

from opscope.columns.schema import EventKind, RecordScope
from opscope.errors import UsageError
from opscope.torch_api.event.attributes import READERS
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event.parts import Interval, Kernel
from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import allocation, build_trace, kernel, span, tensor

TRAIN = [
    span("fwd", 0, 100, kind=EventKind.ANNOTATION),
    span("aten::mul", 10, 40, overload="Tensor", sequence_number=3, inputs=[tensor(2, 3), 2.0]),
    span("aten::empty", 15, 20, inputs=[[2, 3]], keywords={"stream": 7}),
    span("MulBackward0", 200, 230, "worker", sequence_number=3, forward_thread=1,
         scope=RecordScope.BACKWARD_FUNCTION),
]  # fmt: skip


def events(**options):
    allocations = [allocation(17, 24), allocation(150, -24)]
    trace = build_trace(
        TRAIN, allocations=allocations, metadata={"start_ns": 1_700_000_000_000_000_000}
    )
    return make_event_list(trace, profile_memory=True, **options)


def test_device_work():
    trace = build_trace(
        [("aten::linear", 0, 100), ("aten::addmm", 10, 50)],
        gpu=[kernel("gemm", 60, 90, launch=1, correlation_id=5, grid=[4, 1, 1], block=[32, 1, 1])],
    )
    linear, addmm, gemm = make_event_list(trace)

    assert addmm.kernels == [Kernel("gemm", 0, 30.0)] and linear.kernels == []
    assert (linear.use_device, linear.device_time_total, linear.self_device_time_total) == (
        "cuda",
        30,
        0,
    )
    assert (gemm.cpu_time_total, gemm.device_time_total, gemm.self_cpu_time_total) == (0, 30, 0)
    assert (gemm.activity_type, gemm.linked_correlation_id) == ("kernel", 2)
    assert gemm.event_metadata.grid == [4, 1, 1] and gemm.event_metadata.stream == 7
    assert gemm.device_type.name == "CUDA"


def test_every_attribute_of_every_kind_of_row_can_be_read():
    trace = build_trace(
        TRAIN, allocations=[allocation(150, -24)], gpu=[kernel("k", 300, 310, launch=1)]
    )

    for event in make_event_list(trace, with_flops=True, with_stack=True):
        for name in READERS:
            getattr(event, name)
        assert name in vars(event)


def test_made_by_hand():
    event = FunctionEvent(7, "f", 1, 10.0, 30.0, extra_meta={"stream": "3"}, flops=5)
    child = FunctionEvent(8, "g", 1, 12.0, 20.0, cpu_memory_usage=3)
    event.append_cpu_child(child)
    child.set_cpu_parent(event)
    event.append_kernel("k", 0, 4.0)

    assert (event.cpu_time_total, event.self_cpu_time_total) == (20, 12)
    assert (event.self_cpu_memory_usage, child.cpu_parent) == (-3, event)
    assert event.device_time_total == 0, "no device"
    event.use_device = child.use_device = "cuda"
    assert (event.device_time_total, event.self_device_time_total) == (4, 4)
    assert (event.event_metadata.stream, event.device_resource_id, event.flops) == (3, 1, 5)
    assert isinstance(event.time_range, Interval)


def test_device_events_take_no_children():
    from opscope.torch_api.event.parts import device_type

    device_event = FunctionEvent(1, "k", 1, 0.0, 1.0, device_type=device_type(1))

    with pytest.raises(UsageError, match="only CPU events"):
        device_event.append_kernel("k", 0, 1.0)
    with pytest.raises(UsageError, match="only CPU events"):
        FunctionEvent(2, "f", 1, 0.0, 1.0).append_cpu_child(device_event)
    with pytest.raises(UsageError, match="only CPU events"):
        device_event.set_cpu_parent(FunctionEvent(2, "f", 1, 0.0, 1.0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cuda_time_total", "device_time_total"),
        ("self_cuda_time_total", "self_device_time_total"),
        ("self_cuda_memory_usage", "self_device_memory_usage"),
        ("cuda_time", "device_time"),
        ("metadata_json", "_metadata_json"),
    ],
)
def test_deprecated_names_warn(old, new):
    event = events()[1]

    with pytest.warns(FutureWarning):
        assert getattr(event, old) == getattr(event, new)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_is_complete_and_leaves_the_trace_behind(clone):
    mul = clone(events()[1])

    assert (mul.input_shapes, mul.cpu_parent.name) == ([[2, 3], []], "fwd")
    assert [child.name for child in mul.cpu_children] == ["aten::empty"]
    assert "_source" not in vars(mul)
    assert "id=2 name=aten::mul overload_name=Tensor" in repr(mul)
    assert mul.self_cpu_time_total == 25
