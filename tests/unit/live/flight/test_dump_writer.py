"""Dumps that nobody makes traces of, on a disk that is full."""

import contextlib
import resource

import pytest

from opscope.base.artefacts import LOCK
from opscope.errors import LifecycleError, UsageError
from opscope.live import recovery
from opscope.live.flight.dump_request import WHOLE
from opscope.live.recovery import finish_dump
from support.left_behind import held_by_another, spools_in


@pytest.fixture
def spool(tmp_path):
    folder = tmp_path / ".dump-1-1"
    folder.mkdir()
    (folder / LOCK).touch()
    (folder / WHOLE).touch()
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


def test_one_that_a_program_writes_is_left_alone(spool):
    (spool / WHOLE).unlink()
    with held_by_another(spool / LOCK), pytest.raises(LifecycleError, match="still runs"):
        finish_dump(spool)
    assert spool.exists()


def test_one_that_a_killed_program_had_begun_to_write_is_removed(spool):
    (spool / WHOLE).unlink()
    with pytest.raises(ValueError, match="was removed"):
        finish_dump(spool)
    assert not spool.exists()


def test_on_a_full_disk_it_is_kept_and_said_how_to_finish_it(spool, monkeypatch):
    monkeypatch.setattr(recovery, "write_dump", lambda spool: (spool / "log").write_text("x"))
    with full_disk(), pytest.raises(UsageError, match=f"opscope doctor --recover {spool.parent}"):
        finish_dump(spool)
    assert spools_in(spool.parent) == [spool]


def test_files_that_are_links_are_not_followed(spool, tmp_path):
    (tmp_path / "mine").write_text("{}")
    for name in ("facts.json", "reason.json", "log"):
        (spool / name).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="it is a link"):
        finish_dump(spool)
    assert (tmp_path / "mine").exists()
