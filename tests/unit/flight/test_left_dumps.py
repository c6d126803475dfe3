"""Dumps that nobody makes traces of, on a disk that is full."""

import contextlib
import os
import resource

import pytest

from opscope.errors import UsageError
from opscope.flight.dump_writer import KIND, TAKEN, take, take_over
from opscope.flight.left_dumps import finish_dump, is_left, is_taken, left_dumps
from support.headless import headless_process


@pytest.fixture
def spool(tmp_path):
    folder = tmp_path / ".dump-1-1"
    folder.mkdir()
    (folder / KIND).write_text("opscope-dumps")
    return folder


@contextlib.contextmanager
def full_disk():
    """Not as a fixture: pytest writes down how a test went before it ends those."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def ended_process():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def test_what_there_is_no_room_to_take_stays_for_others(spool):
    with full_disk(), pytest.raises(OSError):
        take(spool)
    assert not is_taken(spool)
    assert left_dumps(spool.parent) == [spool]


def test_one_is_taken_once_and_left_when_that_process_has_ended(spool):
    assert take(spool) and not take(spool)
    assert not is_left(spool) and left_dumps(spool.parent) == []
    (spool / TAKEN).write_text(f"{ended_process():10}")
    assert is_left(spool) and left_dumps(spool.parent) == [spool]
    take_over(spool)
    assert left_dumps(spool.parent) == []


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="nobody says how a process is")
def test_one_is_not_left_by_a_process_whose_first_thread_alone_has_ended(spool):
    with headless_process() as process:
        (spool / TAKEN).write_text(f"{process:10}")
        assert not is_left(spool)
    assert is_left(spool)


def test_one_that_is_not_complete_is_none(spool):
    (spool / KIND).unlink()
    assert left_dumps(spool.parent) == []


def test_on_a_full_disk_it_is_kept_and_said_how_to_finish_it(spool):
    with full_disk(), pytest.raises(UsageError, match=f"opscope recover {spool.parent}"):
        finish_dump(spool)
    assert left_dumps(spool.parent) == [spool]
