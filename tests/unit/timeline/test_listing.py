"""Which events are listed, and which are whose children, as torch.profiler decides it."""

from __future__ import annotations

from opscope.analysis.torch_listing.rows import list_rows
from opscope.columns.schema import AllocationAction, EventKind
from opscope.timeline.listing import (
    ANNOTATION,
    SYNCHRONISATION,
    OwnListing,
    TorchListing,
    listed_gpu_rows,
    measure_device_time,
)
from support.build_trace import allocation, build_trace, kernel, span


def listed(trace):
    listing = TorchListing(trace)
    return [trace.event_name(int(row)) for row in listing.rows]


def test_asynchronous_events_are_listed_without_relatives():
    trace = build_trace([
        span("a", 0, 100),
        span("async", 10, 300, parent=0, is_async=True),
        span("inside", 20, 30, parent=1),
    ])  # fmt: skip
    listing = TorchListing(trace)

    assert listing.rows.tolist() == [0, 1, 2]
    assert listing.listed_parent.tolist() == [-1, -1, 0]
    assert (listing.self_ns // 1000).tolist() == [90, 0, 10]


def test_loose_memory_is_what_no_listed_event_contains():
    trace = build_trace(
        [
            span("a", 0, 100),
            span("aten::is_leaf", 200, 300),
            span("async", 400, 500, is_async=True),
        ],
        allocations=[
            allocation(50, 10),
            allocation(150, 20),
            allocation(250, 30),
            allocation(450, 40, event=2),
            allocation(60, 50, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )

    assert TorchListing(trace).loose_allocations.tolist() == [1, 2, 4]


def nested_calls():
    """A function that calls itself, twice within the first call: with work and memory in the inner
    two, and memory of its own in the outer."""
    own = {"kind": EventKind.PYTHON_CALL, "frame": ("module.py", 3, "_call_impl")}
    launch = {"kind": EventKind.RUNTIME_CALL}
    return build_trace(
        [
            span("_call_impl", 0, 100, **own),
            span("_call_impl", 10, 40, **own),
            span("cudaLaunchKernel", 20, 22, **launch),
            span("_call_impl", 50, 90, **own),
            span("cudaLaunchKernel", 60, 62, **launch),
        ],
        gpu=[kernel("a", 30, 50, launch=2), kernel("b", 70, 75, launch=4)],
        allocations=[
            allocation(5, 100, event=0),
            allocation(15, 30, event=1),
            allocation(55, 7, event=3, device_type=1, device_index=0),
        ],
    )


def totals(listing, name):
    rows = list_rows(listing)
    values = rows.quantities[name]
    called = [rows.texts[label].endswith("_call_impl") for label in rows.label]
    return int(values[called].sum())


def test_what_nested_calls_of_a_name_launch_and_hold_counts_once_but_in_torchs_tables():
    listing = OwnListing(nested_calls())
    assert totals(listing, "cpu_total_ns") == 100_000
    assert totals(listing, "device_total_ns") == 25_000
    assert totals(listing, "cpu_memory_bytes") == 130
    assert totals(listing, "device_memory_bytes") == 7
    listing = TorchListing(nested_calls())
    assert totals(listing, "device_total_ns") == 50_000
    assert totals(listing, "device_memory_bytes") == 14


def test_waiting_and_annotations_are_no_work():
    trace = build_trace(
        "a 0..100",
        gpu=[
            kernel("wait", 0, 50, launch=0, kind=SYNCHRONISATION),
            kernel("range", 0, 50, launch=0, kind=ANNOTATION),
            kernel("unlaunched", 60, 70),
        ],
    )
    listing = TorchListing(trace)
    assert measure_device_time(listing).total_ns.tolist() == [0]
    assert listed_gpu_rows(listing).tolist() == [1, 2]
