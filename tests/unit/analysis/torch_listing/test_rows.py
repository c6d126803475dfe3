"""Events, loose memory and device work in one order of time."""

from __future__ import annotations

from opscope.analysis.flops import count_flops
from opscope.analysis.torch_listing.rows import (
    CPU_TYPES,
    DEVICE_TYPES,
    RowSource,
    list_rows,
    measure_memory,
)
from opscope.columns.schema import AllocationAction
from opscope.timeline.listing import ANNOTATION, SYNCHRONISATION, TorchListing
from support.build_trace import allocation, build_trace, kernel, span, tensor


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


def names(rows):
    return [rows.texts[label] for label in rows.label]


def test_rows_of_all_tables_are_merged_by_time():
    trace = build_trace(
        [("a", 10, 20), ("b", 40, 50)],
        allocations=[allocation(5, 4), allocation(15, 8), allocation(30, -4)],
        gpu=[
            kernel("k", 12, 25, launch=0),
            kernel("wait", 26, 28, kind=SYNCHRONISATION),
            kernel("range", 45, 60, kind=ANNOTATION),
        ],
    )

    rows = list_rows(TorchListing(trace))

    assert names(rows) == ["[memory]", "a", "k", "[memory]", "b", "range"]
    assert [RowSource(s).name for s in rows.source] == [
        "ALLOCATION", "EVENT", "GPU", "ALLOCATION", "EVENT", "GPU"
    ]  # fmt: skip
    assert rows.row.tolist() == [0, 0, 0, 2, 1, 2]
    assert rows.quantities.cpu_memory_bytes.tolist() == [4, 8, 0, -4, 0, 0]
    assert (rows.quantities.device_self_ns // 1000).tolist() == [0, 13, 13, 0, 0, 15]
    assert (rows.quantities.cpu_total_ns // 1000).tolist() == [0, 10, 0, 0, 10, 0]
    assert rows.quantities.flops is None
    keys = rows.key.tolist()
    assert keys[0] == keys[3] and len(set(keys)) == 5


def test_quantities_belong_to_listed_events_only():
    trace = build_trace(
        [
            span("aten::is_leaf", 0, 5),
            span("aten::mm", 10, 20, inputs=[tensor(2, 3), tensor(3, 4)]),
        ]
    )

    rows = list_rows(TorchListing(trace), count_flops(trace))

    assert names(rows) == ["aten::mm"]
    assert rows.quantities.flops.tolist() == [48]
    assert len(rows) == 1
