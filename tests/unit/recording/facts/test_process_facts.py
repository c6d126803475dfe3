"""Which rank of which job a process is."""

import pytest

from opscope.recording.facts import process_facts as distributed_job


@pytest.mark.parametrize(
    ("rank", "size", "is_one"),
    [("0", "2", True), ("3", "4", True), ("0", "1", False), ("", "", False), ("x", "2", False)],
)
def test_whether_a_process_is_one_of_several_ranks(monkeypatch, rank, size, is_one):
    monkeypatch.setattr(distributed_job, "_last_seen", {})
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    assert distributed_job.is_rank_of_several() is is_one
    monkeypatch.setattr(distributed_job, "_last_seen", {"rank": 0, "world_size": 3})
    monkeypatch.delenv("RANK")
    assert distributed_job.is_rank_of_several(), "a process group was seen"
