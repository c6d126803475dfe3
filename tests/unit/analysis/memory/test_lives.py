"""From when to when blocks of memory were in use."""

from __future__ import annotations

from opscope.analysis.memory.lives import allocation_lives
from opscope.columns.schema import AllocationAction
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


def test_an_address_used_again_ends_a_life_whose_free_was_missed():
    blocks, found = lives(
        allocations=[allocation(1, 64, address=0x10), allocation(5, 128, address=0x10)]
    )

    assert blocks == [(64, (1, 5)), (128, (5, -1))]
    assert found.free.tolist() == [-1, -1]


def test_two_frees_of_one_address_have_an_unseen_allocation_between_them():
    blocks, _ = lives(
        allocations=[allocation(1, -64, address=0x10), allocation(5, -32, address=0x10)]
    )

    assert blocks == [(64, (-1, 1)), (32, (1, 5))]


def test_failed_allocations_and_other_devices_do_not_count():
    rows = [
        allocation(1, 64, address=0x10, action=AllocationAction.OUT_OF_MEMORY),
        allocation(2, 32, address=0x10, device_type=1, device_index=1),
    ]

    assert lives(allocations=rows)[0] == []
    assert lives(allocations=rows, device="cuda:1")[0] == [(32, (2, -1))]
    assert lives(allocations=rows, device="cuda:0")[0] == []


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


def test_use_before_the_address_is_allocated_is_of_an_earlier_block():
    use = seen(4, allocation_id=1, tensor_id=0)
    blocks, found = lives(
        [span("aten::add", 0, 2, inputs=[use]), span("aten::mul", 10, 12, inputs=[use])],
        allocations=[allocation(5, 16, address=0x10, allocation_id=1)],
    )

    assert blocks == [(16, (5, -1)), (16, (-1, 5))]
    assert found.last_seen_ns.tolist() == [nanoseconds(10), nanoseconds(5)]


def test_memory_that_was_freed_is_not_counted_again_for_its_use():
    use = seen(4, allocation_id=1, tensor_id=0)
    blocks, _ = lives(
        [span("aten::add", 0, 2, inputs=[use])],
        allocations=[allocation(5, -16, address=0x10, allocation_id=1)],
    )

    assert blocks == [(16, (-1, 5))]


def test_tensors_without_memory_are_left_out():
    use = {"allocation_id": 1, "tensor_id": 0, "impl": 1}
    empty = {**use, "allocation_id": 2}
    blocks, _ = lives(
        [
            span("aten::a", 0, 1, inputs=[tensor(4, storage=0, **use)]),
            span("aten::b", 1, 2, inputs=[tensor(0, 4, storage=0x20, **empty)]),
            span("aten::c", 2, 3, inputs=[tensor(4, storage=0x30)]),
        ]
    )

    assert blocks == []


def test_parameters_that_modules_hold_count_as_used():
    row = {
        "module": 0, "optimizer": -1, "parameter": 0, "role": 0, "name": "weight",
        "time_ns": nanoseconds(3), "tensor_id": 1, "allocation_id": 9, "impl": 1, "storage": 0x10,
        "dtype": 6, "device_type": 0, "device_index": -1, "sizes": [4, 2], "strides": [2, 1],
    }  # fmt: skip
    assert lives(parameters=[row])[0] == [(32, (-1, -1))]
