"""A job as a whole: saving all of it, or nothing."""

import pytest

import opscope
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.partition import PROCESS, RANK, Partition
from support.build_trace import build_trace, span


@pytest.fixture
def job(tmp_path):
    for rank in range(4):
        build_trace([span("aten::mm", 0, 10 + rank)]).save(tmp_path / "job", rank=rank)
    return opscope.load(tmp_path / "job")


def test_whether_a_process_is_there_can_be_asked_of_anything(job):
    assert 3 in job and Partition(RANK, 0) in job
    for other in (4, -1, "rank 0", None, 2.0, Partition(PROCESS, 1)):
        assert other not in job


def test_a_folder_that_is_not_there_is_reported_not_to_be(job, tmp_path):
    (tmp_path / "file").write_text("hello")
    for name in ("nowhere", "file"):
        with pytest.raises(TraceFormatError, match="There is no folder"):
            opscope.Job(tmp_path / name)
    with pytest.raises(TraceFormatError, match="contains no traces of processes"):
        opscope.Job(job.path / "rank=00001")


def test_what_is_saved_replaces_what_was_there(job, tmp_path):
    job.save(tmp_path / "copy")
    assert opscope.load(tmp_path / "copy").ranks == [0, 1, 2, 3]
    (tmp_path / "copy" / "rank=00003" / "notes.txt").write_text("mine")
    opscope.Job(job.path, [1, 2]).save(tmp_path / "copy")
    copy = opscope.load(tmp_path / "copy")
    assert copy.ranks == [1, 2]
    assert len(copy[2].events) == 1
    assert [file.read_text() for file in (tmp_path / "copy").rglob("notes.txt")] == ["mine"]


def test_a_job_that_cannot_be_read_as_a_whole_is_not_saved_in_part(job, tmp_path):
    job.save(tmp_path / "copy")
    (job.path / "rank=00002" / "events.parquet").write_bytes(b"PAR1")
    for target in ("copy", "new"):
        with pytest.raises(TraceFormatError, match="rank=00002"):
            job.save(tmp_path / target)
    assert opscope.load(tmp_path / "copy").ranks == [0, 1, 2, 3]
    assert not (tmp_path / "new").exists()
    assert [file.name for file in (tmp_path / "copy").iterdir() if file.name[0] == "."] == []


def test_how_to_do_without_a_rank_that_cannot_be_read_is_reported(job):
    (job.path / "rank=00001" / "events.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceFormatError, match=r"is damaged.* --rank 0,2-3, or opscope\.Job"):
        job.findings()
    assert opscope.Job(job.path, [0, 2, 3]).findings() is not None
    assert len(job.account().processes) == 4  # which was added up when it was saved


def test_what_is_interrupted_leaves_what_was_there(job, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("opscope.storage.store._replace_rank", interrupted)
        job.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_nothing_of_others_is_replaced(job, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"holds thesis\.txt"):
        job.save(tmp_path / "mine")
    with pytest.raises(UsageError, match="the job itself"):
        job.save(job.path)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def saved(folder, rank, size, start_s=0.0):
    start_ns = int((1_700_000_000 + start_s) * 1e9)
    about = {
        "distributedInfo": {"rank": rank, "world_size": size},
        "start_ns": start_ns,
        "end_ns": start_ns + 10**9,
    }
    build_trace([span("aten::mm", 0, 10)], metadata=about).save(folder, rank=rank)


def test_ranks_that_a_larger_job_left_in_the_folder_are_named(tmp_path):
    for rank in range(5):
        saved(tmp_path, rank, 5)
    assert opscope.load(tmp_path).ranks_of_another_job() == ""
    for rank in range(3):
        saved(tmp_path, rank, 3)
    said = opscope.load(tmp_path).ranks_of_another_job()
    assert said.startswith(
        "ranks 3-4 are from another job than the rest of this folder, because its numb"
    )
    assert said in opscope.load(tmp_path).slow_ranks().notes


def test_a_rank_of_another_day_is_named_and_clocks_may_differ(tmp_path):
    for rank in range(3):
        saved(tmp_path, rank, 3, start_s=100 * rank)
    assert opscope.load(tmp_path).ranks_of_another_job() == ""
    saved(tmp_path, 1, 3, start_s=-86_400)
    said = opscope.load(tmp_path).ranks_of_another_job()
    assert said.startswith("rank 1 is from another job than the rest of this folder, because it")


@pytest.mark.parametrize("start", [None, "yesterday", True, -5])
def test_what_says_nothing_of_its_job_is_of_no_other(tmp_path, start):
    for rank in range(2):
        info = {"distributedInfo": {"rank": rank, "world_size": rank + 2}, "start_ns": start}
        about = {} if start is None else info
        build_trace([span("aten::mm", 0, 10)], metadata=about).save(tmp_path, rank=rank)
    assert opscope.load(tmp_path).ranks_of_another_job() == ""


def test_processes_that_joined_as_ranks_are_compared_and_who_began_them_is_not(tmp_path):
    """As `torch.multiprocessing.spawn` begins them: nothing says at first that they are ranks."""
    for process, info in ((10, None), (11, {"rank": 0, "world_size": 2})):
        about = {} if info is None else {"distributedInfo": info}
        trace = build_trace([span("aten::mm", 0, 10)], metadata=about)
        trace.save(tmp_path / "one", process=process)
        trace.save(tmp_path / "two", process=process)
    about = {"distributedInfo": {"rank": 1, "world_size": 2}}
    trace = build_trace([span("aten::mm", 0, 10)], metadata=about)
    trace.save(tmp_path / "two", process=12)
    assert [part.number for part in opscope.load(tmp_path / "two").compared] == [11, 12]
    assert [part.number for part in opscope.load(tmp_path / "one").compared] == [10, 11]
    trace.save(tmp_path / "two", rank=7)
    assert opscope.load(tmp_path / "two").compared == (Partition(RANK, 7),)
