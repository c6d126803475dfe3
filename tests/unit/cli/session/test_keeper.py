"""How the process ends that drains a recording."""

import errno
import os

import pytest

from opscope.cli.session import keeper
from opscope.errors import OpscopeError
from opscope.launch.keeper_process import NO_ROOM
from opscope.recording import recovered as drain


def failing(error, cause=None):
    def drain_while(*_):
        raise error from cause

    return drain_while


@pytest.fixture
def process():
    file = os.pidfd_open(os.getpid())
    yield str(file)
    os.close(file)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_has_an_exit_code_of_its_own(monkeypatch, process, number):
    full = OSError(number, "no room")
    for drain_while in (failing(full), failing(OpscopeError("not written"), full)):
        monkeypatch.setattr(drain, "drain_while", drain_while)
        with pytest.raises(SystemExit) as ended:
            keeper.drain(process, "recording")
        assert ended.value.code == NO_ROOM


def test_anything_else_is_left_to_recovery(monkeypatch, process):
    monkeypatch.setattr(drain, "drain_while", failing(OSError(errno.EIO, "no disk")))
    keeper.drain(process, "recording")
