"""What threads were doing when a recording ended that nobody stopped."""

from opscope.analysis.last_actions import how_it_ended, last_actions
from support.build_trace import build_trace, span

ENDED = {"ended": {"how": "its process was killed by SIGKILL", "whole": False}}


def ended(spans, **changes):
    trace = build_trace(spans)
    ends_ns = int((trace.events["start_ns"] + trace.events["duration_ns"]).max())
    return trace.with_metadata({**ENDED, "end_ns": ends_ns, **changes})


def test_a_recording_that_was_stopped_has_none():
    trace = build_trace([span("aten::mm", 0, 10)])
    assert last_actions(trace) == [] and how_it_ended(trace) == ""
    whole = ended([span("aten::mm", 0, None)], ended={"how": "it was stopped, but", "whole": True})
    assert last_actions(whole) == [] and how_it_ended(whole) == "it was stopped, but"


def test_the_innermost_open_span_is_what_a_thread_was_doing():
    trace = ended([span("step", 0, None), span("done", 1, 4), span("aten::mm", 5, None)])
    (action,) = last_actions(trace)
    assert (action.name, action.around, action.is_open) == ("aten::mm", ("step",), True)
    assert " was in aten::mm for " in str(action) and str(action).endswith(", in step")
    assert how_it_ended(trace) == "its process was killed by SIGKILL"


def test_a_thread_with_nothing_open_had_ended_something():
    trace = ended([span("first", 0, 4), span("last", 5, 7), span("late", 8, 20, thread="b")])
    by_name = {action.name: action for action in last_actions(trace)}
    assert by_name.keys() == {"last", "late"}
    assert not by_name["last"].is_open and by_name["last"].for_ns == 13_000
    assert "no recorded call; last had ended 13.0 µs before" in str(by_name["last"])


def test_what_the_recorder_says_of_itself_is_no_thread_of_the_program():
    track = span("opscope: nothing recorded (budget)", 0, None, thread="opscope: what was left out")
    trace = ended([span("last", 0, 7), track])
    assert [action.name for action in last_actions(trace)] == ["last"]
