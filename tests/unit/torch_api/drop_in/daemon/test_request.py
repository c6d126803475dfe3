"""Configurations as `dyno gputrace` makes them."""

import os

import pytest

from opscope.torch_api.drop_in.daemon.request import TraceRequest

BY_TIME = """ACTIVITIES_LOG_FILE=/tmp/trace.json
PROFILE_START_TIME=1700000000000
ACTIVITIES_DURATION_MSECS=250
PROFILE_REPORT_INPUT_SHAPES=true
PROFILE_PROFILE_MEMORY=false
PROFILE_WITH_STACK=true
"""


def test_for_a_time():
    request = TraceRequest.parse(BY_TIME)
    assert request.path == f"/tmp/trace_{os.getpid()}.json"
    assert request.flags == {"record_shapes": True, "profile_memory": False, "with_stack": True}
    assert (request.start_ns, request.duration_s, request.steps) == (1_700_000_000 * 10**9, 0.25, 0)


def test_for_some_steps():
    text = "ACTIVITIES_LOG_FILE=t.pt.trace.json\nPROFILE_START_ITERATION=0\n"
    text += "PROFILE_START_ITERATION_ROUNDUP=1000\nACTIVITIES_ITERATIONS=42  # steps\0"
    request = TraceRequest.parse(text)
    assert request.path == f"t_{os.getpid()}.pt.trace.json"
    assert (request.steps, request.start_multiple) == (42, 1000)


def test_nothing_is_wanted():
    assert TraceRequest.parse("") is None
    assert TraceRequest.parse("EVENTS_DURATION_SECS=5\n") is None


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="soon"):
        TraceRequest.parse("ACTIVITIES_LOG_FILE=a.json\nPROFILE_START_TIME=soon")
