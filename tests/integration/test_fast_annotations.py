"""torch's _RecordFunctionFast around operators, while recording starts under its feet."""

import threading

import pytest
import torch

import opscope

RecordFunctionFast = torch._C._profiler._RecordFunctionFast


@pytest.fixture(autouse=True)
def recorder_is_set_up():
    with opscope.profile():
        pass


def test_a_thread_is_adopted_inside_one():
    # GIVEN a thread that entered a span while nothing was recording
    entered, go_on, errors = threading.Event(), threading.Event(), []

    def work():
        try:
            with RecordFunctionFast("entered before"):
                entered.set()
                go_on.wait()
                torch.ones(2)
            with RecordFunctionFast("entered after"):
                torch.ones(2)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()

    # WHEN it runs its first operator under a profile
    with opscope.profile(profile_memory=True) as prof:
        go_on.set()
        thread.join()

    # THEN leaving the span does no harm, and the next one is seen
    assert errors == []
    names = [event.name for event in prof.events()]
    assert "entered before" not in names
    assert names.count("entered after") == 1


def test_a_window_that_opens_in_the_middle_of_a_backward_pass():
    """At the end of the pass torch gives the thread back what it had before: no place of ours."""
    prof = opscope.profile()

    def begin(gradient):
        prof.start()
        torch.ones(2)

    made = torch.ones(2, requires_grad=True) * 2
    made.register_hook(begin)
    made.sum().backward()
    torch.ones(2)
    with RecordFunctionFast("after the pass"):
        torch.ones(2)
    prof.stop()
    assert [event.name for event in prof.events()].count("after the pass") == 1


def test_errors_of_the_program_come_through():
    with opscope.profile(), pytest.raises(ValueError, match="kept"), RecordFunctionFast("span"):
        raise ValueError("kept")


def _fast():
    with RecordFunctionFast("fast"):
        pass


def _by_operators():
    with torch.profiler.record_function("torch's"):
        pass


def _afterwards():
    pass


def _enter(span):
    span.__enter__()


@pytest.mark.parametrize("function", [_fast, _by_operators])
def test_the_call_that_ends_one_ends_too(function):
    left_open = opscope.record_function("left open")
    with opscope.profile(with_stack=True) as prof:
        _enter(left_open)  # begun in a call that has returned by the time
        with opscope.record_function("outer"):
            function()
            _afterwards()
        left_open.__exit__(None, None, None)
    trace = prof.trace
    found = [trace.event_name(row) for row in range(len(trace.events))]
    (row,) = [row for row, name in enumerate(found) if name.endswith(": _afterwards")]
    assert found[trace.events["parent"][row]] == "outer"
    started = trace.events["start_ns"] > trace.metadata["start_ns"]
    assert not trace.events["unfinished"][started].any()
