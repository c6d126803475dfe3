"""Where the file of a ring goes, and that nothing of it stays."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch

import opscope
from opscope import _native
from opscope.flight import ring_file
from opscope.flight.left_rings import dump_ring, left_rings
from opscope.launch import keeper_process

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def little_memory(monkeypatch):
    """As in a container, whose DataLoaders need it."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(64 << 20, 0, 64 << 20))


def recorder_in(folder, **more):
    return opscope.flight_recorder(directory=folder, triggers=[], **more)


def test_it_is_in_memory_with_its_name_in_the_folder(tmp_path):
    with recorder_in(tmp_path, max_memory="2MiB"):
        (name,) = left_rings(tmp_path)
        file = Path(os.readlink(name))
        assert file.parent == Path("/dev/shm") and file.stat().st_mode & 0o777 == 0o600
    assert not file.exists() and not os.path.lexists(name)


def test_it_is_in_the_folder_where_others_need_the_memory(tmp_path, little_memory):
    with recorder_in(tmp_path):
        (name,) = left_rings(tmp_path)
        assert name.is_file() and not name.is_symlink()
        torch.ones(2).add(1)
    assert not left_rings(tmp_path)


def test_a_name_that_an_earlier_process_left_is_not_taken(tmp_path):
    number = _native.new_number()
    for more in range(1, 20):
        (tmp_path / f".ring-{os.getpid()}-{number + more}").symlink_to("/nowhere/at/all")
    with recorder_in(tmp_path):
        assert _native.stream_state()[1:] == (True, False)
        (own,) = [one for one in left_rings(tmp_path) if one.exists()]
    assert not os.path.lexists(own)
    for left in left_rings(tmp_path):
        assert dump_ring(left) is None  # there is nothing
    assert not left_rings(tmp_path)


def test_where_there_can_be_none_that_is_said_once(tmp_path, little_memory, monkeypatch, capfd):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ring_file._native, "begin_stream", refuse)
    with recorder_in(tmp_path, last="80ms") as recorder:
        torch.ones(2).add(1)
        recorder.dump("x", wait=True)
        assert not left_rings(tmp_path)
    assert capfd.readouterr().err.count("lost if it is killed") == 1


def test_a_keeper_removes_what_has_lost_its_name(tmp_path):
    folder = os.fspath(tmp_path)
    name = keeper_process.in_memory_name(".ring-123456789-7", folder)
    lost, other = Path("/dev/shm", name + "abc"), Path("/dev/shm", ".ring-123456789-7-0-abc")
    lost.touch()
    other.touch()
    try:
        keeper_process.remove_lost_rings(123456789, folder)
        assert not lost.exists() and other.exists()
    finally:
        other.unlink()


def test_what_was_lost_before_anything_was_recorded_is_removed(tmp_path):
    name = tmp_path / ".ring-123456789-1"
    with recorder_in(tmp_path):
        (ring,) = left_rings(tmp_path)
        header = bytearray(ring.read_bytes()[:65536])
    header[:4096] = header[:4096].replace(
        os.getpid().to_bytes(8, "little"), (123456789).to_bytes(8, "little")
    )
    name.write_bytes(header)
    assert dump_ring(name) is None
    assert not name.exists()


def test_what_is_no_ring_is_refused_and_kept(tmp_path):
    name = tmp_path / ".ring-123456789-1"
    name.write_bytes(b"nothing of ours" * 10_000)
    with pytest.raises(ValueError, match="no recording"):
        dump_ring(name)
    assert name.exists()
