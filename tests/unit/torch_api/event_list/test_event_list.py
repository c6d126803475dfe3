"""The event list: lazy over a trace, ordinary once changed, complete in what it offers."""

import json
import sys
from types import SimpleNamespace

import pytest

from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event_list.event_list import EventList, make_event_list
from support.build_trace import allocation, build_trace, span

TIMELINE = """
    step              0..100
      aten::linear   10..60
        aten::addmm  20..50
      aten::relu     70..90
"""


@pytest.fixture
def made(monkeypatch):
    """Positions of the events made so far."""
    positions = []
    of_trace = FunctionEvent.of_trace

    def counting(source, position):
        positions.append(position)
        return of_trace(source, position)

    monkeypatch.setattr(FunctionEvent, "of_trace", counting)
    return positions


def test_tables_and_sums_make_no_event(made):
    events = make_event_list(build_trace([("f", i, i + 1) for i in range(50)]))

    assert events.table(row_limit=2).count("\n") == 7
    assert events.self_cpu_time_total == 50
    averages = events.key_averages()
    assert averages[0] is averages[0] and events.total_average().count == 50
    assert set(made) == {0}, "only the first of each group"


PYTHON = [
    span("f.py(1): f", 0, 100, kind=EventKind.PYTHON_CALL),
    span("aten::add", 10, 30),
    span("<built-in method g>", 40, 60, kind=EventKind.C_CALL),
]


@pytest.mark.parametrize("by_hand", [False, True])
def test_python_calls_can_be_left_out_of_averages(by_hand):
    events = make_event_list(build_trace(PYTHON))
    if by_hand:
        events = EventList(events)

    averages = events.key_averages(include_python_functions=False)

    assert [(a.key, a.count, a.self_cpu_time_total) for a in averages] == [("aten::add", 1, 20)]
    assert len(events.key_averages(True, 1, True, include_python_functions=True)) == 3
    assert [a.key for a in events.key_averages(True, 1, True, False)] == ["aten::add"]
    assert events.total_average().count == 3


@pytest.mark.parametrize("parameters", ["self", "self, include_python_functions=False"])
def test_python_calls_are_averaged_by_default_where_torch_does_so(parameters, monkeypatch):
    method = eval(f"lambda {parameters}: None")
    profiler = SimpleNamespace(_KinetoProfile=SimpleNamespace(key_averages=method))
    monkeypatch.setitem(sys.modules, "torch.profiler.profiler", profiler)

    averages = make_event_list(build_trace(PYTHON)).key_averages()

    assert len(averages) == (3 if parameters == "self" else 1)


def test_a_changed_list_works_on_what_it_holds():
    events = make_event_list(build_trace(TIMELINE), profile_memory=True)

    del events[0]
    events.sort(key=lambda event: event.name)

    assert [event.name for event in events] == ["aten::addmm", "aten::linear", "aten::relu"]
    assert events.self_cpu_time_total == 70
    assert [a.key for a in events.key_averages()] == ["aten::addmm", "aten::linear", "aten::relu"]
    assert events.total_average().count == 3
    assert "step" not in events.table() and "aten::relu" in events.table()


def test_the_same_numbers_from_columns_and_from_objects():
    trace = build_trace(TIMELINE, allocations=[allocation(30, 64), allocation(200, -64)])
    events = make_event_list(trace, profile_memory=True)
    copies = EventList(list(events), profile_memory=True)

    assert events.table() == copies.table()
    assert events.table(top_level_events_only=True) == copies.table(top_level_events_only=True)
    assert events.key_averages().table(sort_by="cpu_time") == copies.key_averages().table(
        sort_by="cpu_time"
    )
    mine, theirs = events.total_average(), copies.total_average()
    assert (mine.cpu_memory_usage, mine.count) == (theirs.cpu_memory_usage, theirs.count)


def test_export_stacks(tmp_path):
    trace = build_trace([
        span("a b.py(1): f;g", 0, 100, kind=EventKind.PYTHON_CALL),
        span("c.py(2): h", 10, 90, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 20, 70),
    ])  # fmt: skip
    events = make_event_list(trace, with_stack=True)
    expected = "a_b.py(1):_f_g 30\na_b.py(1):_f_g;c.py(2):_h 50\n"

    events.export_stacks(tmp_path / "columns.txt", "self_cpu_time_total")
    EventList(list(events)).export_stacks(tmp_path / "objects.txt", "self_cpu_time_total")

    assert (tmp_path / "columns.txt").read_text() == expected
    assert (tmp_path / "objects.txt").read_text() == expected
    assert "self_cuda_time_total" in events.supported_export_stacks_metrics()
    with pytest.raises(UsageError, match="self_cpu_time_total"):
        events.export_stacks(tmp_path / "x.txt", "calls")


def test_events_without_a_trace_are_exported_as_slices(tmp_path):
    events = EventList([FunctionEvent(1, 'f"', 3, 10.0, 30.0, trace_name='f"')])

    events.export_chrome_trace(tmp_path / "trace.json")

    slices = json.loads((tmp_path / "trace.json").read_text())
    assert [(s["name"], s["ts"], s["dur"], s["tid"]) for s in slices] == [('f"', 10.0, 20.0, 3)]
    with pytest.raises(UsageError, match="Cannot write"):
        events.export_chrome_trace(tmp_path / "missing" / "trace.json")
