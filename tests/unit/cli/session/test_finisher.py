"""How a program's process asks another to make its trace, and how long it waits for that."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from opscope.cli.session import finisher
from opscope.cli.session.finisher import Finisher
from opscope.cli.views.console import Messages
from opscope.launch.keeper_process import DONE
from opscope.recording.streams.keeper import Answer
from opscope.recording.streams.trace_request import Destination, EndRequest


@pytest.fixture
def request_(tmp_path):
    files = Destination(tmp_path / "t")
    return EndRequest(
        destination=files,
        table=False,
        why=False,
        rank=None,
        process=None,
        with_children=False,
        folder=tmp_path,
    )


@pytest.fixture
def other_end(monkeypatch):
    """What the process that was asked has of the connection; each time another one."""
    ends = []

    def send_to_keeper(folder, text, continues):
        ours, theirs = socket.socketpair()
        ends.append(theirs)
        return Answer(ours)

    monkeypatch.setattr(finisher, "send_to_keeper", send_to_keeper)
    yield ends
    for end in ends:
        end.close()


def finisher_for(folder):
    return Finisher(folder, Messages(animated=False))


def test_what_is_done_is_not_waited_for_and_what_was_asked_before_is(
    tmp_path, request_, other_end, capsys
):
    asking = finisher_for(tmp_path)
    assert asking.request(request_) and asking.is_busy
    other_end[0].send(DONE)
    asking.request(request_)
    assert len(other_end) == 2 and asking.is_busy
    other_end[1].send(DONE)
    asking.wait_at_the_end()
    assert not asking.is_busy and capsys.readouterr().err == ""


def test_what_takes_longer_goes_on_without_the_program(
    tmp_path, request_, other_end, monkeypatch, capsys
):
    monkeypatch.delenv(finisher.WAIT)
    monkeypatch.setattr(finisher, "_LEAST_S", 0.0)
    asking = finisher_for(tmp_path)
    asking.request(request_)
    asking.wait_at_the_end()
    assert "another process continues" in capsys.readouterr().err
    assert other_end[0].recv(1) == b""  # and it notices that nobody waits


@pytest.mark.parametrize("asked", ["60", "0", "-1", "inf", "nan", "soon"])
def test_how_long_can_be_said_where_it_makes_sense(tmp_path, monkeypatch, asked):
    monkeypatch.setenv(finisher.WAIT, asked)
    asking = finisher_for(tmp_path)
    asking.program_ends()
    expected_s = {"60": 60, "0": 0}.get(asked, finisher._LEAST_S)
    assert expected_s - 1 < asking._remaining_s <= expected_s


def test_one_that_is_killed_leaves_what_was_recorded(tmp_path, request_, other_end, capsys):
    asking = finisher_for(tmp_path)
    asking.request(request_)
    other_end[0].close()
    asking.wait_at_the_end()
    said = capsys.readouterr().err
    assert "was killed" in said and f"opscope doctor --recover {tmp_path}" in said


def test_without_a_process_it_is_reported_what_becomes_of_the_recording(
    tmp_path, request_, monkeypatch, capsys
):
    def send_to_keeper(folder, text, continues):
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(finisher, "send_to_keeper", send_to_keeper)
    recorded = EndRequest.from_text(
        request_.as_text().replace('"recording": null', '"recording": "/r"')
    )
    asking = finisher_for(tmp_path)
    assert not asking.request(recorded) and not asking.is_busy
    said = capsys.readouterr().err
    assert "no more processes" in said and f"opscope doctor --recover {tmp_path}" in said
    asking.wait_at_the_end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_the_program_does_not_wait(request_, number):
    """Of a terminal, too, where it waits for as long as it takes."""
    program = """
import os, socket, sys
from pathlib import Path
from opscope.cli.session import finisher
from opscope.cli.views.console import Messages
from opscope.recording.streams.trace_request import EndRequest
from opscope.cli.session.termination import LastAction
from opscope.recording.streams.keeper import Answer
ours, theirs = socket.socketpair()
finisher.send_to_keeper = lambda folder, text, continues: Answer(ours)
asking = finisher.Finisher(Path("t"), Messages(animated=False))
asking.request(EndRequest.from_text(sys.argv[1]))
received = Answer.received
def waits(*arguments):
    print("waits", flush=True)
    return received(*arguments)
Answer.received = waits
def action():
    try:
        asking.wait(30)
    except KeyboardInterrupt:
        print("left", asking.is_busy, flush=True)
last = LastAction(action)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, request_.as_text()], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waits\n"
        os.kill(process.pid, number)
        assert process.stdout.readline() == "left True\n"
    assert process.returncode == (0 if number == signal.SIGINT else -number)


def test_requests_are_read_as_they_were_written(tmp_path, request_):
    text = request_.as_text()
    assert "\n" not in text and EndRequest.from_text(text) == request_
    more = {**json.loads(text), "saved": "/c"}
    more["job"] = {
        "folder": "/j",
        "has_cycles": True,
        "root": 3,
        "destination": more["destination"],
    }
    read = EndRequest.from_text(json.dumps(more))
    assert EndRequest.from_text(read.as_text()) == read
    assert read.job.destination == request_.destination and read.saved.name == "c"
