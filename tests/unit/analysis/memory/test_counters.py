"""What was not recorded is not answered from what happens to be known."""

from __future__ import annotations

import pytest

from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.memory.over_time import memory_over_time
from opscope.errors import UsageError
from support.build_trace import build_trace, span, tensor

SPANS = [span("aten::mm", 0, 10, inputs=[tensor(64, 64, storage=0x10, allocation_id=1)])]


def test_tensors_in_arguments_are_no_recording_of_memory(tmp_path):
    trace = build_trace(SPANS, metadata={"options": {"memory": False}})
    assert not memory_was_recorded(trace)
    assert memory_over_time(trace) == []
    for ask in (
        trace.peak_memory,
        lambda: trace.peak_memory("cpu"),
        lambda: trace.export("memory-timeline", tmp_path / "x.memory.json"),
    ):
        with pytest.raises(UsageError, match=r"was not recorded.*--memory"):
            ask()


def test_a_recording_in_which_none_was_allocated_says_that():
    trace = build_trace([("aten::mm", 0, 10)], metadata={"options": {"memory": True}})
    with pytest.raises(UsageError, match="no memory events"):
        trace.peak_memory()
