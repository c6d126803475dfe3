"""Who may move a recording to segments, and who waits for whom."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from opscope.errors import UsageError
from opscope.recording.one_drainer import draining

HOLDER = """
import sys
from pathlib import Path
from opscope.recording.one_drainer import draining
with draining(Path(sys.argv[1])):
    print("has it", flush=True)
    input()
"""


@pytest.fixture
def recording(tmp_path):
    return tmp_path / ".recording-7-1.opscope"


@pytest.fixture
def holder(recording):
    command = [sys.executable, "-c", HOLDER, str(recording)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdout.readline() == "has it\n"
        yield process
        process.kill()


def test_one_waits_for_another_that_goes_on(recording, holder):
    threading.Timer(0.3, lambda: holder.communicate("\n")).start()
    with draining(recording):
        assert holder.wait() == 0


def test_one_that_is_stopped_is_not_waited_for(recording, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    said = rf"process {holder.pid}.*kill -CONT {holder.pid}.*opscope recover"
    with pytest.raises(UsageError, match=said), draining(recording):
        pass
    os.kill(holder.pid, signal.SIGCONT)
    holder.communicate("\n")
    with draining(recording):
        pass


def test_one_that_was_killed_has_it_no_more(recording, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    holder.kill()
    with draining(recording):
        pass
