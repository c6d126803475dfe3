"""What was in use at the peak: when that was, whose it was, and what nobody saw being allocated."""

from __future__ import annotations

import pytest

from opscope.analysis.memory.peak import (
    ALLOCATED_BEFORE,
    NOT_RECORDED,
    memory_at_peak,
)
from opscope.columns.schema import AllocationAction
from opscope.errors import UsageError
from support.build_trace import ORIGIN_NS, allocation, build_trace, nanoseconds, span, tensor

CUDA = {"device_type": 1, "device_index": 0}
OPERATORS = [span("aten::linear", 0, 20), span("aten::addmm", 5, 15), span("aten::relu", 30, 40)]


def peak_of(spans=OPERATORS, device=None, **tables):
    return memory_at_peak(build_trace(spans, metadata={"start_ns": ORIGIN_NS}, **tables), device)


def sizes(groups):
    return {group.name: group.size_bytes for group in groups}


def test_the_peak_is_the_moment_with_most_in_use():
    peak = peak_of(
        allocations=[
            allocation(6, 100, address=0x10),
            allocation(7, 50, address=0x20),
            allocation(12, -50, address=0x20),
            allocation(31, 80, address=0x30),
            allocation(35, -100, address=0x10),
            allocation(36, 60, address=0x40),
        ]
    )

    assert (peak.device, peak.time_ns, peak.total_bytes) == ("cpu", nanoseconds(31), 180)
    assert sizes(peak.by_operator) == {"aten::linear": 100, "aten::relu": 80}
    assert peak.blocks.size_bytes.tolist() == [100, 80]
    assert peak.blocks.allocated_ns.tolist() == [nanoseconds(6), nanoseconds(31)]
    assert peak.blocks.freed_ns.tolist() == [nanoseconds(35), -1]
    assert (peak.before_bytes, peak.unseen_bytes, peak.uncertain_bytes) == (0, 0, 0)


def test_what_the_allocator_counted_before_is_part_of_the_total():
    # GIVEN an allocator that had handed out 1,000 bytes when the recording began
    peak = peak_of(
        allocations=[
            allocation(6, 100, address=0x10, total_allocated_bytes=1100, **CUDA),
            allocation(8, -300, address=0x99, total_allocated_bytes=800, **CUDA),
            allocation(9, -100, address=0x10, total_allocated_bytes=700, **CUDA),
        ]
    )

    assert (peak.total_bytes, peak.time_ns) == (1100, nanoseconds(6))
    # 300 of them were seen being freed later, of the rest only the total tells.
    assert (peak.before_bytes, peak.unseen_bytes) == (1000, 700)
    assert sizes(peak.by_operator) == {ALLOCATED_BEFORE: 1000, "aten::linear": 100}


def test_the_cpus_total_is_not_relied_on():
    # GIVEN a total that still has 5,000 bytes which were freed while nobody listened
    peak = peak_of(
        allocations=[
            allocation(6, 100, address=0x10, total_allocated_bytes=5100),
            allocation(8, -40, address=0x99, total_allocated_bytes=5060),
        ]
    )

    assert (peak.total_bytes, peak.before_bytes, peak.unseen_bytes) == (140, 40, 0)


def test_the_cpus_allocator_knows_nothing_of_before_but_use_shows_it():
    weight = tensor(8, 4, impl=1, storage=0x80, allocation_id=1, tensor_id=0)
    rows = [allocation(6, 100, address=0x10, allocation_id=2, tensor_id=1)]
    spans = [span("aten::mm", 0, 20, inputs=[weight]), span("aten::relu", 30, 40)]
    peak = peak_of(spans, allocations=rows)

    assert (peak.total_bytes, peak.before_bytes, peak.unseen_bytes) == (228, 128, 0)
    assert peak.uncertain_bytes == 128, "last seen before the peak, and its free is not recorded"

    spans = [span("aten::mm", 0, 5), span("aten::mm", 30, 40, inputs=[weight])]
    used_later = peak_of(spans, allocations=rows)
    assert (used_later.before_bytes, used_later.uncertain_bytes) == (128, 0)


def test_an_allocation_that_was_missed_is_distinguished_from_one_before():
    peak = peak_of(
        allocations=[
            allocation(1, 10, address=0x10),
            allocation(2, -10, address=0x10),
            allocation(6, 100, address=0x20),
            allocation(8, -40, address=0x10),  # made after 2, while nobody recorded
        ]
    )

    assert sizes(peak.by_operator)[NOT_RECORDED] == 40


def test_devices_are_accounted_for_one_by_one():
    rows = [
        allocation(6, 1000, address=0x10),
        allocation(7, 10, address=0x20, device_type=1, device_index=0),
        allocation(8, 30, address=0x30, device_type=1, device_index=1),
        allocation(9, 9, address=0, action=AllocationAction.OUT_OF_MEMORY),
    ]

    assert peak_of(allocations=rows).device == "cuda:1"
    assert peak_of(allocations=rows, device="cuda").total_bytes == 10
    assert peak_of(allocations=rows, device="cpu").total_bytes == 1000
    with pytest.raises(
        UsageError, match=r"no memory of xpu:0; it has memory of cpu, cuda:0, cuda:1"
    ):
        peak_of(allocations=rows, device="xpu:0")
