"""From when to when blocks of memory were in use."""

from __future__ import annotations

from opscope.analysis.memory.lives import allocation_lives
from support.build_trace import allocation, build_trace, nanoseconds, span, tensor


def lives(spans=(("aten::op", 0, 100),), device="cpu", **tables):
    found = allocation_lives(build_trace(spans, **tables), device)
    times = [
        tuple((t - nanoseconds(0)) // 1000 if t >= 0 else t for t in pair)
        for pair in zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    ]
    return list(zip(found.size_bytes.tolist(), times, strict=True)), found


def test_an_allocation_lives_until_its_free():
    blocks, found = lives(
        allocations=[
            allocation(1, 64, address=0x10, allocation_id=1, tensor_id=5),
            allocation(2, 32, address=0x20, allocation_id=2),
            allocation(3, -64, address=0x10, allocation_id=1),
        ]
    )

    assert blocks == [(64, (1, 3)), (32, (2, -1))]
    assert found.allocation.tolist() == [0, 1]
    assert found.free.tolist() == [2, -1]
    assert found.allocation_id.tolist() == [1, 2]
    assert found.tensor_id.tolist() == [5, -1]


def test_what_is_freed_without_an_allocation_was_there_before():
    blocks, found = lives(allocations=[allocation(7, -64, address=0x10)])

    assert blocks == [(64, (-1, 7))]
    assert found.allocation.tolist() == [-1]


def seen(*sizes, **columns):
    return tensor(*sizes, impl=1, storage=0x10, **columns)


def test_what_is_used_without_an_allocation_was_there_before():
    identity = {"allocation_id": 4, "tensor_id": 2}
    blocks, found = lives(
        [
            span("aten::add", 10, 20, inputs=[seen(2, 3, **identity)]),
            span("aten::sum", 30, 40, inputs=[seen(3, storage_offset=5, strides=[2], **identity)]),
        ]
    )

    assert blocks == [(40, (-1, -1))]  # elements 0 to 9: the second view reaches furthest
    assert found.last_seen_ns.tolist() == [nanoseconds(30)]
    assert found.tensor_id.tolist() == [2]


def test_results_are_seen_when_their_operator_ends():
    made = seen(4, allocation_id=1, tensor_id=0)
    blocks, found = lives(
        [span("aten::empty", 0, 10, outputs=[made])],
        allocations=[allocation(5, 16, address=0x10, allocation_id=1)],
    )

    assert blocks == [(16, (5, -1))]
    assert found.last_seen_ns.tolist() == [nanoseconds(10)]


def test_parameters_that_modules_hold_count_as_used():
    row = {
        "module": 0, "optimizer": -1, "parameter": 0, "role": 0, "name": "weight",
        "time_ns": nanoseconds(3), "tensor_id": 1, "allocation_id": 9, "impl": 1, "storage": 0x10,
        "dtype": 6, "device_type": 0, "device_index": -1, "sizes": [4, 2], "strides": [2, 1],
    }  # fmt: skip
    assert lives(parameters=[row])[0] == [(32, (-1, -1))]
