"""The file that a flight recorder's ring is in, and what becomes of it."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch

import opscope
from opscope.errors import LifecycleError, TraceFormatError
from opscope.launch import keeper_process
from opscope.live.flight import ring as ring_file
from opscope.live.recovery import dump_ring
from support.left_behind import file_of_ring, held_by_another, rings_in

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def little_memory(monkeypatch):
    """As in a container, whose DataLoaders need it."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(64 << 20, 0, 64 << 20))


def recorder_in(folder, **more):
    return opscope.flight_recorder(directory=folder, triggers=[], **more)


def test_it_is_in_memory_with_its_name_in_the_folder(tmp_path):
    with recorder_in(tmp_path, max_memory="2MiB"):
        (name,) = rings_in(tmp_path)
        file = file_of_ring(name)
        assert file.parent == Path("/dev/shm") and file.stat().st_mode & 0o777 == 0o600
    assert not file.exists() and not os.path.lexists(name)


def test_where_there_can_be_none_that_is_reported_once(tmp_path, little_memory, monkeypatch, capfd):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ring_file._native, "begin_stream", refuse)
    with recorder_in(tmp_path, last="80ms") as recorder:
        torch.ones(2).add(1)
        recorder.dump("x", wait=True)
        assert not rings_in(tmp_path)
    assert capfd.readouterr().err.count("lost if it is killed") == 1


def test_a_keeper_removes_what_has_lost_its_name(tmp_path):
    folder, owner = os.fspath(tmp_path), "0123456789abcdef"
    name = f".ring-123-{owner}-7"
    lost = Path("/dev/shm", keeper_process.in_memory_name(name, folder))
    other = Path("/dev/shm", keeper_process.in_memory_name(name, "elsewhere"))
    lost.touch()
    other.touch()
    try:
        keeper_process.remove_lost_rings(owner, folder)
        assert not lost.exists() and other.exists()
    finally:
        other.unlink()


RING = ".ring-123456789-0123456789abcdef-1"


def test_what_was_lost_before_anything_was_recorded_is_removed(tmp_path):
    with recorder_in(tmp_path):
        (ring,) = rings_in(tmp_path)
        header = file_of_ring(ring).read_bytes()[:65536]
    (tmp_path / RING).write_bytes(header)
    assert dump_ring(tmp_path / RING) is None
    assert not (tmp_path / RING).exists()


def test_what_is_no_ring_is_refused_and_kept(tmp_path):
    name = tmp_path / RING
    name.write_bytes(b"nothing of ours" * 10_000)
    with pytest.raises(ValueError, match="not a recording"):
        dump_ring(name)
    assert name.exists()


@pytest.fixture
def note(tmp_path):
    """Of a ring that is not there, or not of this user's making."""
    path = tmp_path / f"{RING}.json"
    path.write_text(f"{RING}-01234567")
    in_memory = Path("/dev/shm", f"{RING}-01234567")
    yield path, in_memory
    in_memory.unlink(missing_ok=True)


def test_a_note_of_a_ring_that_is_in_no_memory_here_is_kept(note):
    path, _ = note
    with held_by_another(path), pytest.raises(LifecycleError, match="still runs"):
        dump_ring(path)
    with pytest.raises(ValueError, match="memory of a container or machine that has ended"):
        dump_ring(path)
    assert path.exists()


def test_a_note_does_not_have_what_another_made_read_or_removed(note, tmp_path):
    path, in_memory = note
    in_memory.write_bytes(b"nothing of ours" * 10_000)
    in_memory.chmod(0o644)
    with pytest.raises(TraceFormatError, match="other users can access it"):
        dump_ring(path)
    in_memory.chmod(0o600)
    with pytest.raises(ValueError, match="not a recording"):
        dump_ring(path)
    with recorder_in(tmp_path / "other"):
        (ring,) = rings_in(tmp_path / "other")
        in_memory.write_bytes(file_of_ring(ring).read_bytes())
    with pytest.raises(ValueError, match="belongs to another ring"):
        dump_ring(path)
    assert in_memory.exists()


@pytest.mark.parametrize("said", ["../../etc/passwd", "", "x", f"{RING}-x", f"{RING}-01234567/..",
                                  ".ring-123456789-0123456789abcdef-2-01234567"])  # fmt: skip
def test_a_note_names_nothing_but_its_ring(note, said):
    path, _ = note
    path.write_text(said)
    with pytest.raises(TraceFormatError, match="not a ring file"):
        dump_ring(path)
    assert path.exists()


def test_what_a_link_or_a_pipe_in_the_place_of_a_ring_leads_to_stays(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / RING).symlink_to("mine")
    os.mkfifo(tmp_path / ".ring-1-0123456789abcdef-2")
    assert rings_in(tmp_path) == []
    for name in (RING, ".ring-1-0123456789abcdef-2"):
        with pytest.raises(TraceFormatError, match=r"it is a (link|pipe)"):
            dump_ring(tmp_path / name)
    assert (tmp_path / "mine").read_text() == "mine"
