"""Dumps that nobody makes traces of, on a disk that is full."""

import contextlib
import resource

import pytest

from opscope.base.artefacts import LOCK
from opscope.errors import LifecycleError, UsageError
from opscope.live.flight.dump_writer import KIND, finish_dump, is_left, is_taken, take
from support.left_behind import held_by_another, spools_in


@pytest.fixture
def spool(tmp_path):
    folder = tmp_path / ".dump-1-1"
    folder.mkdir()
    (folder / LOCK).touch()
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


def test_what_there_is_no_room_to_take_stays_for_others(spool):
    with full_disk(), pytest.raises(OSError):
        take(spool)
    assert not is_taken(spool)


def test_one_is_taken_once_and_left_when_that_process_has_ended(spool):
    assert take(spool) and not take(spool)
    with held_by_another(spool / LOCK, "LOCK_EX") as process:
        assert not is_left(spool)
        with pytest.raises(UsageError, match="Another process writes the trace"):
            finish_dump(spool)
        process.kill()
        process.wait()
        assert is_left(spool)


def test_one_that_a_program_writes_is_left_alone(spool):
    (spool / KIND).unlink()
    with held_by_another(spool / LOCK), pytest.raises(LifecycleError, match="still runs"):
        finish_dump(spool)
    assert spool.exists()


def test_one_that_a_killed_program_had_begun_to_write_is_removed(spool):
    (spool / KIND).unlink()
    with pytest.raises(ValueError, match="was removed"):
        finish_dump(spool)
    assert not spool.exists()


def test_on_a_full_disk_it_is_kept_and_said_how_to_finish_it(spool):
    with full_disk(), pytest.raises(UsageError, match=f"opscope doctor --recover {spool.parent}"):
        finish_dump(spool)
    assert spools_in(spool.parent) == [spool] and not is_taken(spool)


def test_files_that_are_links_are_not_followed(spool, tmp_path):
    (tmp_path / "mine").write_text("{}")
    for name in ("facts.json", "reason.json", "log"):
        (spool / name).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="it is a link"):
        finish_dump(spool)
    assert (tmp_path / "mine").exists()
