"""Finding the files of recordings that did not end."""

import os

from opscope.storage.manifest import MANIFEST, is_later, unfinished_below
from opscope.storage.partition import RANK, Partition


def make(path, seconds):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (seconds, seconds))
    return path


def test_cycles_are_looked_into(tmp_path):
    outer = make(tmp_path / ".recording-7-3.opscope", 1)
    inner = make(tmp_path / "cycle-2" / ".recording-7-2.opscope", 1)
    make(tmp_path / "other" / ".recording-7-1.opscope", 1)
    assert list(unfinished_below(tmp_path)) == [outer, inner]
    assert list(unfinished_below(tmp_path / "gone")) == []


def test_a_trace_that_was_written_later_is_the_last(tmp_path):
    recording = make(tmp_path / ".recording-7-1.opscope", 20)
    assert is_later(recording, Partition(RANK, 0))
    make(tmp_path / "rank=00000" / MANIFEST, 10)
    assert is_later(recording, Partition(RANK, 0))
    make(tmp_path / "rank=00000" / MANIFEST, 30)
    assert not is_later(recording, Partition(RANK, 0))
    assert is_later(recording, Partition(RANK, 1))
    recording.unlink()
    assert not is_later(recording, Partition(RANK, 1))
