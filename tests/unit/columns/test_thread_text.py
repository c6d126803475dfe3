"""What threads are called in sentences."""

from opscope.columns.location import thread_name, thread_text
from support.build_trace import build_trace, span


def test_a_thread_has_its_number_and_its_name_if_any():
    trace = build_trace([span("aten::mm", 0, 1), span("aten::mm", 0, 1, "loader")])
    numbers = trace.table("threads")["system_thread_id"].tolist()
    assert [thread_name(trace, number) for number in numbers] == ["main", "loader"]
    assert thread_text(trace, numbers[1]) == f"thread {numbers[1]} (loader)"


def test_of_a_thread_that_called_nothing_the_number_is_known():
    assert thread_text(build_trace([span("aten::mm", 0, 1)]), 77) == "thread 77"
