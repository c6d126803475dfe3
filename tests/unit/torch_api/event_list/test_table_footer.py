"""What is said below the table."""

from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import build_trace, span, tensor

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
