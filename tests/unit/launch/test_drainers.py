"""Processes that drain a long recording: begun again where they were killed, or a disk was full."""

import os
import sys

import pytest

from opscope.launch import keeper_process
from opscope.launch.keeper_process import NO_ROOM, Drainers


class Watched:
    """Drainers of one long recording, on a disk with room at a time that somebody sets."""

    def __init__(self, folder, monkeypatch):
        self.now_s, self.has_room = 0.0, True
        monkeypatch.setattr(keeper_process, "recordings_of", lambda *_: [str(folder / "one")])
        monkeypatch.setattr(keeper_process, "_is_long", lambda file: True)
        monkeypatch.setattr(keeper_process, "_has_room", lambda folder: self.has_room)
        monkeypatch.setattr(keeper_process.time, "monotonic", lambda: self.now_s)
        self._folder = folder
        self._read, self._write = os.pipe()
        self._drainers = self._ending_with("0")

    def close(self):
        os.close(self._read)
        os.close(self._write)

    def _ending_with(self, how):
        command = [sys.executable, "-I", "-S", "-c", f"import os; os._exit({how})"]
        return Drainers(os.getpid(), self._read, str(self._folder), command)

    def begun(self, looks, how):
        """How many processes so many looks begin, each of which ends ``how`` before the next."""
        self._drainers._helpers._command = self._ending_with(how)._helpers._command
        count = 0
        for _ in range(looks):
            self._drainers.look()
            for process in self._drainers._helpers._running:
                os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
                count += 1
        return count


@pytest.fixture
def watched(tmp_path, monkeypatch):
    watched = Watched(tmp_path, monkeypatch)
    yield watched
    watched.close()


def test_one_that_is_killed_again_and_again_is_given_up(watched):
    assert watched.begun(looks=9, how="os.kill(os.getpid(), 9)") == 4


def test_on_a_full_disk_another_is_begun_when_there_is_room(watched):
    assert watched.begun(looks=3, how=NO_ROOM) == 1
    watched.now_s = 100.0
    watched.has_room = False
    assert watched.begun(looks=3, how=NO_ROOM) == 0
    watched.has_room = True
    assert watched.begun(looks=3, how=NO_ROOM) == 1  # a quota, say


def test_a_full_disk_is_no_reason_to_give_up(watched):
    for second in range(0, 100, 10):
        watched.now_s = second
        assert watched.begun(looks=2, how=NO_ROOM) == 1
    watched.now_s = 200.0
    assert watched.begun(looks=2, how="0") == 1
    assert watched.begun(looks=2, how="0") == 0
