"""Memory per event: totals with everything inside, self without listed children."""

from opscope.analysis.torch_listing.memory_use import CPU_TYPES, DEVICE_TYPES, measure_memory
from opscope.columns.schema import AllocationAction
from opscope.timeline.listing import TorchListing
from support.build_trace import allocation, build_trace, span


def test_totals_include_children_and_frees_count_negative():
    trace = build_trace(
        """
        aten::add       0..100
          aten::empty   1..20
          aten::fill_  30..40
        """,
        allocations=[allocation(10, 64), allocation(50, 16), allocation(60, -24)],
    )

    use = measure_memory(TorchListing(trace), CPU_TYPES)

    assert use.total_bytes.tolist() == [56, 64, 0]
    assert use.self_bytes.tolist() == [-8, 64, 0]


def test_devices_are_kept_apart_and_failures_are_not_counted():
    trace = build_trace(
        "aten::add 0..100",
        allocations=[
            allocation(10, 64),
            allocation(20, 256, device_type=1, device_index=0),
            allocation(30, 1000, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )
    listing = TorchListing(trace)

    assert measure_memory(listing, CPU_TYPES).total_bytes.tolist() == [64]
    assert measure_memory(listing, DEVICE_TYPES).total_bytes.tolist() == [256]


def test_memory_of_unlisted_events_is_their_parents_own():
    trace = build_trace(
        """
        a                  0..100
          aten::is_leaf   10..20
        """,
        allocations=[allocation(15, 8)],
    )

    assert measure_memory(TorchListing(trace), CPU_TYPES).self_bytes.tolist()[0] == 8


def test_asynchronous_events_have_totals_but_nothing_of_their_own():
    trace = build_trace(
        [span("a", 0, 100), span("async", 10, 200, parent=0, is_async=True)],
        allocations=[allocation(20, 8, event=1)],
    )
    use = measure_memory(TorchListing(trace), CPU_TYPES)

    assert use.total_bytes.tolist() == [8, 8]
    assert use.self_bytes.tolist() == [8, 0]


def test_without_allocations():
    use = measure_memory(TorchListing(build_trace("a 0..1")), CPU_TYPES)

    assert use.total_bytes.tolist() == [0] and use.self_bytes.tolist() == [0]
