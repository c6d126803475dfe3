"""A folder of several processes is a job, and gives each of them as a trace."""

import pytest

import opscope
from opscope.api.job import Job
from opscope.errors import UsageError
from opscope.storage.partition import Partition
from support.build_trace import build_trace, span


@pytest.fixture
def folder(tmp_path):
    for rank in (0, 2):
        build_trace([span(f"aten::of_{rank}", 0, 5)], metadata={"rank": rank}).save(
            tmp_path / "job", rank=rank
        )
    build_trace([span("aten::alone", 0, 5)]).save(tmp_path / "job", process=77)
    return tmp_path / "job"


def test_several_processes_are_a_job_that_gives_each_as_a_trace(folder):
    job = opscope.load(folder)
    assert isinstance(job, Job)
    assert list(job) == [Partition("rank", 0), Partition("rank", 2), Partition("process", 77)]
    assert (len(job), job.ranks) == (3, [0, 2])
    assert str(folder) in repr(job) and "all 3 processes" in repr(job)
    assert opscope.load(folder, rank=2).event_name(0) == "aten::of_2"
    assert opscope.load(folder, process=77).event_name(0) == "aten::alone"
    assert job[2].event_name(0) == "aten::of_2"
    assert job[Partition("process", 77)].event_name(0) == "aten::alone"
    assert [trace.event_name(0) for _, trace in job.traces()] == [
        "aten::of_0",
        "aten::of_2",
        "aten::alone",
    ]
    assert 2 in job and 1 not in job


def test_what_is_not_there_is_reported(folder):
    job = opscope.load(folder)
    with pytest.raises(UsageError, match=r"has no rank 1. It contains: 0, 2, process 77"):
        job[1]
    with pytest.raises(UsageError, match="by its rank or its Partition; 'first'"):
        job["first"]


def test_answers_are_about_all(folder):
    job = opscope.load(folder)
    rows = job.sql("select rank, process, name from named_events order by all").fetchall()
    assert rows == [(0, None, "aten::of_0"), (2, None, "aten::of_2"), (None, 77, "aten::alone")]
    assert job.account().processes == job.parts
    assert repr(job.account()).startswith("<ComparedAccounts of 3 processes\n  rank 0: ")
    names = job.together()
    assert {names.event_name(row) for row in range(len(names.events))} == {
        "aten::of_0",
        "aten::of_2",
        "aten::alone",
    }


def only(folder, parts):
    return opscope.load(folder).only(parts)


@pytest.mark.parametrize("some", [Job, only])
def test_some_of_them_are_a_job_too(folder, some):
    job = some(folder, [2, Partition("process", 77)])
    assert list(job) == [Partition("rank", 2), Partition("process", 77)]
    rows = job.sql("select rank, process, name from named_events order by all").fetchall()
    assert rows == [(2, None, "aten::of_2"), (None, 77, "aten::alone")]
    assert len(job.together().events) == 2
    assert [entry.partition for entry in job.processes.entries] == list(job)
    fewer = job.only([2])
    assert fewer.ranks == [2] and len(fewer) == 1 and len(job) == 2
    with pytest.raises(UsageError, match="has no rank 0"):
        job[0]
    for rank in (0, 5):
        with pytest.raises(UsageError, match=f"has no rank {rank}"):
            job.only([rank])
    with pytest.raises(UsageError, match="has no rank 5"):
        some(folder, [5])
    with pytest.raises(UsageError, match="Name at least one"):
        some(folder, [])
