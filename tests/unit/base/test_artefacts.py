"""Whose is what lies in a folder: by a lock, and never by the number of a process."""

import errno
import fcntl
import os

import pytest

from opscope.base.artefacts import (
    LOCK,
    InUseError,
    LeftKind,
    at,
    claimed,
    find,
    is_alive,
    locked_folder,
    new_name,
    owner,
    remove,
    remove_parts,
    unfinished_name,
)
from opscope.base.locks import Holder, NoLocksError
from support.left_behind import held_by_another


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / new_name(".recording-", 3, ".opscope")
    path.touch()
    return at(path)


def test_those_of_one_process_are_found_oldest_first_and_links_are_none(tmp_path):
    for number in (2, 1):
        (tmp_path / new_name(".recording-", number, ".opscope")).touch()
        os.utime(
            tmp_path / new_name(".recording-", number, ".opscope"), ns=(9 - number, 9 - number)
        )
    (tmp_path / ".recording-1-0123456789abcdef-3.opscope").touch()
    for other in ("recording-7-3.opscope", ".recording-7-x.opscope"):
        (tmp_path / other).touch()
    (tmp_path / ".recording-1-4.opscope").symlink_to("anywhere")
    (tmp_path / ".recording-1-5.opscope").mkdir()
    assert [one.number for one in find(tmp_path, LeftKind.STREAM, owned_by=owner())] == [2, 1]
    assert len(find(tmp_path, LeftKind.STREAM)) == 3
    assert find(tmp_path, LeftKind.RING, LeftKind.SPOOL) == []


def test_one_that_its_process_holds_is_alive_wherever_that_runs(recording):
    with held_by_another(recording.path):
        assert is_alive(recording)
        with pytest.raises(InUseError) as refused, claimed(recording):
            pass
        assert refused.value.holder is Holder.RECORDER
    assert not is_alive(recording)
    with claimed(recording) as is_there:
        assert is_there


def test_one_that_is_claimed_is_not_claimed_again_until_the_claimant_has_ended(recording):
    with held_by_another(recording.path, "LOCK_EX") as claimant:
        with pytest.raises(InUseError) as refused, claimed(recording):
            pass
        assert refused.value.holder is Holder.CLAIMANT and not is_alive(recording)
        claimant.kill()
        with claimed(recording, wait=True) as is_there:
            assert is_there


def test_a_claim_ends_although_a_forked_child_has_the_file(recording):
    reading, writing = os.pipe()
    with claimed(recording):
        if (child := os.fork()) == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    with claimed(recording) as is_there:
        assert is_there
    os.close(writing)
    os.waitpid(child, 0)


def test_a_program_that_closes_all_files_has_what_it_has_in_memory(recording):
    import mmap

    recording.path.write_bytes(b"text")
    with open(recording.path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 4, prot=mmap.PROT_READ)
    assert is_alive(recording)
    mapped.close()
    assert not is_alive(recording)


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_without_locks_nothing_is_claimed(recording, monkeypatch, error):
    def refuse(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(NoLocksError, match="no locks"), claimed(recording):
        pass
    remove_parts(recording.folder)


def test_a_recording_goes_with_its_segments_and_links_are_not_followed(recording, tmp_path):
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "file").touch()
    recording.path.with_suffix(".segments").symlink_to(outside)
    remove(recording)
    assert os.listdir(tmp_path) == ["mine"] and os.listdir(outside) == ["file"]


def test_parts_of_writers_that_are_gone_are_removed_and_nothing_else(tmp_path):
    kept = {"rank=00000", ".rank=00000", f".a.{os.getpid()}-b", "trace.json", ".hidden.part"}
    for name in kept:
        (tmp_path / name).mkdir()
    begun, export = tmp_path / unfinished_name("rank=00000"), unfinished_name("trace.json", ".part")
    orphan = tmp_path / new_name(".recording-", 7, ".segments")
    for folder in (begun, orphan):
        folder.mkdir()
        (folder / (LOCK if folder == begun else "lock")).touch()
        (folder / "file").touch()
    (tmp_path / export).touch()
    with (
        held_by_another(begun / LOCK),
        held_by_another(tmp_path / export),
        held_by_another(orphan / "lock"),
    ):
        remove_parts(tmp_path)
        assert len(os.listdir(tmp_path)) == len(kept) + 3
    remove_parts(tmp_path)
    assert set(os.listdir(tmp_path)) == kept
    remove_parts(tmp_path / "nowhere")


def test_a_new_folder_is_its_makers_until_it_is_done(tmp_path):
    place = tmp_path / unfinished_name("rank=00000")
    with locked_folder(place):
        remove_parts(tmp_path)
        assert place.exists()
    assert not place.exists()
