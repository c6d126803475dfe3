"""Where something is, and how that reads."""

from opscope.columns.location import Location, thread_name, thread_text
from support.build_trace import build_trace, span


def test_a_location_reads_as_file_and_line():
    assert str(Location("./train.py", 12, "main")) == "train.py:12"
    assert str(Location("train.py", function="main")) == "train.py"
    assert str(Location()) == ""


def test_of_what_a_module_does_itself_only_the_module_may_be_known():
    texts = {("train.py", 1): "import torch", ("train.py", 2): "go()"}
    assert Location("train.py", 1, "<module>").said(texts) == ""
    assert Location("train.py", 2, "<module>").said(texts) == "go()"
    assert Location("train.py", 1, "main").said(texts) == "import torch"


def test_a_thread_has_its_number_and_its_name_if_any():
    trace = build_trace([span("aten::mm", 0, 1), span("aten::mm", 0, 1, "loader")])
    numbers = trace.table("threads")["system_thread_id"].tolist()
    assert [thread_name(trace, number) for number in numbers] == ["main", "loader"]
    assert thread_text(trace, numbers[1]) == f"thread {numbers[1]} (loader)"


def test_of_a_thread_that_called_nothing_the_number_is_known():
    assert thread_text(build_trace([span("aten::mm", 0, 1)]), 77) == "thread 77"
