"""Datagrams between a process and Dynolog's daemon, and what these ask for."""

import os
import socket

import pytest

from opscope.torch_api.drop_in import daemon as messages
from opscope.torch_api.drop_in.daemon import TraceRequest


def test_what_is_cut_is_refused():
    with pytest.raises(ValueError, match="too short"):
        messages.read_message(b"x" * 39)
    with pytest.raises(ValueError, match="cut"):
        messages.read_message(messages.message("req", b"1234")[:-1])


def test_names_are_abstract_or_files(monkeypatch):
    monkeypatch.delenv("KINETO_IPC_SOCKET_DIR", raising=False)
    assert messages.address("dynolog") == b"\0dynolog\0"
    monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", "/run/dyno")
    assert messages.address("dynolog") == "/run/dyno/dynolog"


def test_the_scheduler_says_the_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    assert messages.job_id() == 31
    monkeypatch.setenv("SLURM_JOB_ID", "none")
    assert messages.job_id() == 0


def test_only_messages_of_users_who_are_trusted_are_taken(tmp_path):
    with (
        messages.open_endpoint(str(tmp_path / "ours")) as ours,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon,
    ):
        for _ in range(2):
            daemon.sendto(messages.message("req", b"A=B"), str(tmp_path / "ours"))
        with pytest.raises(messages.ForeignSenderError, match=str(os.getuid())):
            messages.receive(ours, {os.getuid() + 1})
        assert messages.receive(ours, {os.getuid()}) == ("req", b"A=B")
        with pytest.raises(BlockingIOError):
            messages.receive(ours, {os.getuid()})


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
