"""Events, loose memory and device work in one order of time."""

from __future__ import annotations

from opscope.analysis.torch_listing.rows import (
    RowSource,
    list_rows,
)
from opscope.timeline.listing import ANNOTATION, SYNCHRONISATION, TorchListing
from support.build_trace import allocation, build_trace, kernel


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
    assert rows.quantities["cpu_memory_bytes"].tolist() == [4, 8, 0, -4, 0, 0]
    assert (rows.quantities["device_self_ns"] // 1000).tolist() == [0, 13, 13, 0, 0, 15]
    assert (rows.quantities["cpu_total_ns"] // 1000).tolist() == [0, 10, 0, 0, 10, 0]
    assert "flops" not in rows.quantities
    keys = rows.key.tolist()
    assert keys[0] == keys[3] and len(set(keys)) == 5
