"""The table of averages is written from columns, and says what the objects say."""

import itertools

import pytest

from opscope.columns.schema import EventKind
from opscope.torch_api.event.function_event_avg import FunctionEventAvg
from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import allocation, build_trace, span, tensor


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
