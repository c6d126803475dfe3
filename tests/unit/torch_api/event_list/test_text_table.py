"""The table's layout, down to the character; what is said below it; averages from columns."""

import pytest

from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import build_trace, kernel, span, tensor

TIMELINE = [("aten::linear", 0, 1000), ("aten::addmm", 100, 900), ("aten::linear", 1000, 1500)]


def averages(spans=TIMELINE, grouping=None, allocations=(), gpu=(), **options):
    trace = build_trace(spans, allocations=allocations, gpu=gpu)
    return make_event_list(trace, **options).key_averages(**(grouping or {}))


def titles(table):
    """Column titles of a table; two spaces or more part them."""
    return [t.strip() for t in table.splitlines()[1].split("  ") if t.strip()]


def rows(table):
    """Cells of every row."""
    lines = table.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("Self CPU time total"))
    body = lines[lines.index(lines[0], 1) + 1 : end - 1]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in body]


def test_the_plain_table_to_the_letter():
    line = "----------------  " + "------------  " * 6
    assert averages().table() == (
        f"{line}\n"
        "            Name    Self CPU %      Self CPU   CPU total %     CPU total"
        "  CPU time avg    # of Calls  \n"
        f"{line}\n"
        "    aten::linear        46.67%     700.000us       100.00%       1.500ms"
        "     750.000us             2  \n"
        "     aten::addmm        53.33%     800.000us        53.33%     800.000us"
        "     800.000us             1  \n"
        f"{line}\n"
        "Self CPU time total: 1.500ms\n"
    )


@pytest.mark.parametrize(
    ("sort_by", "first"),
    [
        (None, "aten::linear"),
        ("cpu_time_total", "aten::linear"),
        ("self_cpu_time_total", "aten::addmm"),
        ("cpu_time", "aten::addmm"),
        ("count", "aten::linear"),
        ("self_cuda_time_total", "aten::linear"),
        ("key", "aten::linear"),
    ],
)
def test_sorting_is_descending_and_ties_keep_their_order(sort_by, first):
    assert rows(averages().table(sort_by=sort_by))[0][0] == first


def test_device_columns():
    table = averages(gpu=[kernel("gemm", 500, 900, launch=1)]).table()

    assert titles(table)[6:10] == ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
    by_name = {row[0]: row for row in rows(table)}
    assert by_name["aten::linear"][6:10] == ["0.000us", "0.00%", "400.000us", "200.000us"]
    assert by_name["gemm"][6:10] == ["400.000us", "100.00%", "400.000us", "400.000us"]
    assert "Self CUDA time total: 400.000us" in table


MM = [span("aten::mm", 0, 30, inputs=[tensor(2, 3), tensor(3, 4)]), span("aten::relu", 50, 60)]


def below(table):
    lines = table.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Self CPU time total"))
    return lines[at + 1 :]


def test_the_share_of_time_that_operations_were_counted_for():
    events = make_event_list(build_trace(MM), with_flops=True)

    assert below(events.table()) == ["FLOPs: formulas cover 75.0% of operator time"]
    assert below(events.key_averages().table()) == below(events.table())
    assert below(make_event_list(build_trace(MM)).table()) == []
    unknown = make_event_list(build_trace("aten::mm 0..10"), with_flops=True)
    assert below(unknown.table()) == ["FLOPs: no operator with a formula and recorded shapes"]


def test_the_ledger():
    ledger = {
        "events": {"requested": 12_007, "recorded": 12_000, "dropped: memory budget": 7},
        "arguments": {"dropped: unreadable": 0},
        "recorder": {"cost_ns of one operator": 100.0},
    }

    events = make_event_list(build_trace(MM, ledger=ledger))

    assert below(events.key_averages().table()) == [
        "Events recorded: 12,000; dropped: 7 events (memory budget)",
        "Cost of recording: about 130 ns per event",
    ]
