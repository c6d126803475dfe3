"""Averages in torch's shape."""

import pickle

import pytest

from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event.function_event_avg import FunctionEventAvg
from opscope.torch_api.event_list.event_list import make_event_list
from support.build_trace import build_trace, span, tensor

SPANS = [
    span("outer", 0, 100, kind=EventKind.ANNOTATION),
    span("aten::mm", 10, 30, inputs=[tensor(2, 3), tensor(3, 4)]),
    span("aten::mm", 40, 90, inputs=[tensor(2, 3), tensor(3, 4)]),
]


def test_only_events_of_its_key_can_be_added():
    average = FunctionEventAvg().add(FunctionEvent(1, "f", 1, 0.0, 1.0))

    with pytest.raises(UsageError, match="average of 'f'"):
        average.add(FunctionEvent(1, "g", 1, 0.0, 1.0))
    with pytest.raises(UsageError, match="Only events"):
        average.add("f")


def test_an_empty_average():
    average = FunctionEventAvg()

    assert (average.cpu_time, average.cpu_parent, average.cpu_children) == (0.0, None, None)
    with pytest.raises(AttributeError, match="colour"):
        _ = average.colour


def test_pickling():
    mm = make_event_list(build_trace(SPANS)).key_averages()[1]

    restored = pickle.loads(pickle.dumps(mm))

    assert (restored.count, restored.cpu_parent.name) == (2, "outer")
    assert "key=aten::mm self_cpu_time=70.000us" in repr(restored)


def test_adding_events_one_by_one_gives_the_same():
    events = make_event_list(build_trace(SPANS))
    total = FunctionEventAvg()
    for event in events[1:]:
        total += event
    mm = events.key_averages()[1]

    assert (total.count, total.cpu_time_total, total.key) == (2, 70, "aten::mm")
    assert total.self_cpu_time_total == mm.self_cpu_time_total
    assert total.input_shapes == [[2, 3], [3, 4]]
