"""The table's layout, down to the character; what is said below it; averages from columns."""

import itertools

import pytest

from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.torch_api.event.function_event_avg import FunctionEventAvg
from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import allocation, build_trace, kernel, span, tensor

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


def test_unknown_sort_keys_are_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no column 'time'.*count.*self_cpu_time_total"):
        averages().table(sort_by="time")


@pytest.mark.parametrize(("limit", "shown"), [(0, 0), (1, 1), (100, 2), (-1, 2), (None, 2)])
def test_row_limit(limit, shown):
    assert len(rows(averages().table(row_limit=limit))) == shown


@pytest.mark.parametrize(
    ("unit", "cells", "total"),
    [
        ("s", ["0.001s", "0.002s", "0.001s"], "0.002s"),
        ("ms", ["0.700ms", "1.500ms", "0.750ms"], "1.500ms"),
        ("us", ["700.000us", "1500.000us", "750.000us"], "1500.000us"),
    ],
)
def test_time_unit(unit, cells, total):
    table = averages().table(time_unit=unit)

    linear = rows(table)[0]
    assert [linear[2], linear[4], linear[5]] == cells
    assert f"Self CPU time total: {total}\n" in table


def test_unknown_time_unit():
    with pytest.raises(UsageError, match=r"no time unit 'ns'.*s, ms, us"):
        averages().table(time_unit="ns")


def test_header_and_top_level():
    table = averages().table(header="my run", top_level_events_only=True)
    lines = table.splitlines()

    width = len(lines[4]) - 2
    assert lines[:4] == [
        "=" * width,
        "my run",
        "=" * width,
        "This report only display top-level ops statistics",
    ]
    assert "aten::linear" in table and "aten::addmm" not in table
    assert "Self CPU time total: 1.500ms" in table, "the total is still that of all rows"


def test_long_names_are_cut():
    events = make_event_list(build_trace([("x" * 80, 0, 10)]))

    assert "x" * 52 + "...  " in events.table()
    assert "x" * 17 + "...  " in events.table(max_name_column_width=20)
    assert "    " + "x" * 80 + "  " in events.table(max_name_column_width=None)


def test_memory_columns():
    table = averages(
        allocations=[allocation(150, 2048), allocation(950, -1024)], profile_memory=True
    ).table()

    assert titles(table)[-3:] == ["CPU Mem", "Self CPU Mem", "# of Calls"]
    assert [row[-3:] for row in rows(table)] == [
        ["1.00 KB", "-1.00 KB", "2"],
        ["2.00 KB", "2.00 KB", "1"],
    ]


def test_device_columns():
    table = averages(gpu=[kernel("gemm", 500, 900, launch=1)]).table()

    assert titles(table)[6:10] == ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
    by_name = {row[0]: row for row in rows(table)}
    assert by_name["aten::linear"][6:10] == ["0.000us", "0.00%", "400.000us", "200.000us"]
    assert by_name["gemm"][6:10] == ["400.000us", "100.00%", "400.000us", "400.000us"]
    assert "Self CUDA time total: 400.000us" in table


def test_device_memory_columns():
    table = averages(
        gpu=[kernel("gemm", 500, 900, launch=1)],
        allocations=[allocation(150, 512, device_type=1, device_index=0)],
        profile_memory=True,
    ).table()

    assert titles(table)[10:14] == ["CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem"]


def test_shapes_overloads_and_operations():
    spans = [
        span("aten::mm", 0, 10, overload="out", inputs=[tensor(20, 30), tensor(30, 40)]),
        span("aten::relu", 20, 30, inputs=[tensor(20, 40)]),
    ]
    grouping = {"group_by_input_shapes": True, "group_by_overload_name": True}

    table = averages(spans, grouping, with_flops=True).table()

    assert titles(table)[:2] == ["Name", "Overload Name"]
    assert titles(table)[-2:] == ["Input Shapes", "Total KFLOPs"]
    assert rows(table)[0][-2:] == ["[[20, 30], [30, 40]]", "48.000"]
    assert rows(table)[1][-2:] == ["[[20, 40]]", "--"]
    narrow = averages(spans, grouping).table(max_shapes_column_width=10)
    assert rows(narrow)[0][-1] == "[[20, 30],"


def test_without_any_operations_there_is_no_column():
    assert titles(averages(with_flops=True).table())[-1] == "# of Calls"


def test_source_locations_take_a_line_per_frame():
    trace = build_trace([
        span("a" * 90 + ".py(1): f", 0, 100, kind=EventKind.PYTHON_CALL),
        span("b.py(2): g", 10, 90, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 20, 80),
    ])  # fmt: skip
    events = make_event_list(trace, with_stack=True)

    lines = events.key_averages(group_by_stack_n=2).table().splitlines()

    at = next(i for i, line in enumerate(lines) if "aten::mm" in line)
    assert lines[at].endswith("  b.py(2): g" + " " * (75 - len("b.py(2): g")) + "  ")
    assert lines[at + 1].strip() == "..." + "a" * (75 - 3 - len(".py(1): f")) + ".py(1): f"
    assert lines[at + 2].strip() == "" and len(lines[at + 2]) == len(lines[at])


def test_operations_stand_under_their_title_beside_stacks():
    trace = build_trace([
        span("b.py(2): g", 0, 90, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 20, 80, inputs=[tensor(2, 3), tensor(3, 4)]),
    ])  # fmt: skip
    events = make_event_list(trace, with_stack=True, with_flops=True)

    lines = events.key_averages(group_by_stack_n=1).table().splitlines()

    row = next(line for line in lines if "aten::mm" in line)
    assert lines[1].rstrip().endswith("Total FLOPs") and row.rstrip().endswith("48.000")
    assert row.index("b.py") == lines[1].index("Source Location")


def test_asynchronous_rows_have_no_share():
    spans = [span("a", 0, 100), span("async", 10, 300, parent=0, is_async=True)]

    table = make_event_list(build_trace(spans)).table()

    assert rows(table)[1] == ["async", "0.00%", "0.000us", "0", "290.000us", "290.000us", "1"]


def test_nothing_took_any_time():
    assert rows(averages([("f", 0, 0)]).table())[0][1] == "NaN"


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


def test_without_shapes_it_says_so():
    events = make_event_list(build_trace("aten::mm 0..10"), with_flops=True)

    assert below(events.table()) == ["FLOPs: no operator with a formula and recorded shapes"]


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


def test_nothing_dropped_is_said_too():
    events = make_event_list(build_trace(MM, ledger={"events": {"recorded": 2}}))

    assert below(events.table()) == ["Events recorded: 2; none dropped"]


def test_losses_without_a_count_of_events():
    events = make_event_list(build_trace(MM, ledger={"gpu": {"dropped: buffer full": 3}}))

    assert below(events.table()) == ["Dropped: 3 gpu (buffer full)"]


@pytest.fixture
def events():
    file = "train.py"
    trace = build_trace(
        [
            span("main", 0, 100, kind=EventKind.PYTHON_CALL, frame=(file, 3, "main")),
            span("aten::mm", 10, 20, inputs=[tensor(2, 3), tensor(3, 4)], overload="out"),
            span("aten::mm", 30, 70, inputs=[tensor(20, 30), tensor(30, 40)]),
            span("aten::add", 80, 85),
        ],
        allocations=[allocation(35, 4096)],
    )
    return make_event_list(trace, profile_memory=True, with_flops=True, with_stack=True)


GROUPINGS = list(itertools.product([False, True], [0, 2], [False, True], [False, True]))


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("top", [False, True])
def test_columns_and_objects_agree(events, grouping, top):
    averages = events.key_averages(*grouping)
    of_columns = averages.table(top_level_events_only=top, row_limit=-1)
    assert len(list(averages)) == len(averages) > 0
    assert averages.table(top_level_events_only=top, row_limit=-1) == of_columns


def test_no_object_is_made_for_a_table(events, monkeypatch):
    monkeypatch.setattr(FunctionEventAvg, "__init__", None)
    assert "aten::mm" in events.key_averages().table()


def test_what_was_changed_by_hand_is_shown(events):
    averages = events.key_averages()
    next(average for average in averages if average.key == "aten::add").key = "renamed"
    assert "renamed" in averages.table()
    averages.sort(key=lambda average: average.count)
    assert averages[-1].key == "aten::mm"


def test_an_average_is_the_same_object_every_time(events):
    averages = events.key_averages()
    assert averages[0] is averages[0]
    assert next(iter(averages)) is averages[0]
