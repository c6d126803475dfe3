"""Memory in use by category, and what held it at the peak."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.memory.counters import memory_counters
from opscope.analysis.memory.life_categories import ALLOCATED_BEFORE
from opscope.analysis.memory.over_time import OUTSIDE, memory_over_time
from opscope.columns.schema import RecordScope
from support.build_trace import ORIGIN_NS, allocation, build_trace, nanoseconds, span

CUDA = {"device_type": 1, "device_index": 0}


def parts_of(parts):
    """Bytes at every sample by the name of the part."""
    return dict(zip(parts.names, parts.size_bytes.T.tolist(), strict=True))


@pytest.fixture
def training():
    return build_trace(
        [
            span("aten::linear", 0, 20),
            span("AddmmBackward0", 30, 50, scope=RecordScope.BACKWARD_FUNCTION),
        ],
        allocations=[
            allocation(5, 100, address=0x10),
            allocation(10, 50, address=0x20),
            allocation(15, -50, address=0x20),
            allocation(35, 300, address=0x20),
            allocation(40, -100, address=0x10),
            allocation(60, 8, address=0x30, event=-1),
        ],
        metadata={"start_ns": ORIGIN_NS},
    )


def test_bytes_by_part_of_the_step(training):
    (cpu,) = memory_over_time(training)
    assert cpu.device == "cpu"
    assert cpu.time_ns.tolist() == [ORIGIN_NS] + [nanoseconds(t) for t in (5, 10, 15, 35, 40, 60)]
    assert cpu.total_bytes.tolist() == [0, 100, 150, 100, 400, 300, 308]
    assert parts_of(cpu.by_phase) == {
        OUTSIDE: [0, 0, 0, 0, 0, 0, 8],
        "forward": [0, 100, 150, 100, 100, 0, 0],
        "backward": [0, 0, 0, 0, 300, 300, 300],
    }
    assert (cpu.peak.in_use, cpu.peak.time_ns) == (400, nanoseconds(35))
    assert cpu.at_peak == 4


def test_without_tensors_the_reason_is_given_in_place_of_categories(training):
    (cpu,) = memory_over_time(training)
    assert cpu.by_category is None
    assert "record_shapes=True" in cpu.uncategorised_because
    rows = [allocation(1, 64, total_allocated_bytes=0), allocation(2, 8, total_allocated_bytes=0)]
    summed = memory_counters(build_trace([("aten::empty", 0, 10)], allocations=rows))
    assert summed[0].allocated_bytes.tolist() == [64, 72]
    (unasked,) = memory_over_time(training, categories=False)
    assert (unasked.by_category, unasked.uncategorised_because) == (None, "")
    assert memory_over_time(build_trace([("aten::mm", 0, 1)])) == []


def test_what_was_there_before_is_a_part_of_its_own():
    trace = build_trace(
        [("aten::empty", 0, 10)],
        allocations=[
            allocation(1, 100, address=0x10, total_allocated_bytes=1100, **CUDA),
            allocation(2, -400, address=0x99, total_allocated_bytes=700, **CUDA),
        ],
    )
    (cuda,) = memory_over_time(trace)
    assert parts_of(cuda.by_phase) == {
        ALLOCATED_BEFORE: [1000, 1000, 600],
        "forward": [0, 100, 100],
    }


def test_long_recordings_are_sampled_with_the_peak_kept():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 1000, 5000)
    rows = [allocation(i, int(s), address=i + 1) for i, s in enumerate(sizes)]
    rows.insert(2500, allocation(2500, 10**9, address=10**6))
    rows.insert(2501, allocation(2500, -(10**9), address=10**6))
    (cpu,) = memory_over_time(build_trace([], allocations=rows), stretches=50)
    assert len(cpu.time_ns) <= 200
    assert cpu.total_bytes[cpu.at_peak] == cpu.peak.in_use > 10**9
