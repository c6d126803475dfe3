"""A job of several hosts, whose folders lie beside each other."""

from __future__ import annotations

from argparse import Namespace

import pytest

import opscope
from opscope.api.job import Job
from opscope.cli import trace_argument
from opscope.errors import TraceFormatError
from opscope.jobs.job_rollups import make_rollups
from opscope.jobs.recordings import find_recordings
from opscope.storage.partition import PROCESS, RANK, Partition
from support.build_trace import build_trace, span


def save(folder, rank, world, name="aten::mm"):
    about = {"distributedInfo": {"rank": rank, "world_size": world}}
    trace = build_trace([span(name, 0, 100 + rank)], metadata=about)
    return trace.save(folder, rank=rank)


@pytest.fixture
def copied(tmp_path):
    for rank in range(4):
        save(tmp_path / "job" / f"host-{rank // 2}.opscope", rank, world=4)
    return tmp_path / "job"


def test_they_are_one_job(copied):
    job = opscope.load(copied)
    assert isinstance(job, Job) and job.ranks == [0, 1, 2, 3]
    assert job.missing_ranks() == "" and not job.unfinished
    assert [len(trace.events) for _, trace in job.traces()] == [1, 1, 1, 1]
    assert job.sql("SELECT count(*) FROM events").fetchall() == [(4,)]
    assert len(job.processes) == 4
    found = job.processes
    assert [len(found.load(one.partition).events) for one in found.recorded] == [1, 1, 1, 1]


def test_one_of_them_is_loaded_by_its_rank_and_out_of_core_if_it_is_long(copied):
    trace = opscope.load(copied, rank=3)
    assert trace.events["duration_ns"].tolist() == [103_000]
    assert "ranks of the job" not in trace.ledger, "no rank is missing"
    own = find_recordings(copied).folder_of(Partition(RANK, 3))
    assert own == copied / "host-1.opscope"
    asked = Namespace(trace=copied, rank="3", process=None)
    long = trace_argument.long_trace(trace_argument.choose_trace(asked), most=0)
    assert long.folder == copied / "host-1.opscope" / "rank=00003"


def test_ranks_that_no_host_brought_are_missing(copied):
    (copied / "host-1.opscope").rename(copied.parent / "elsewhere")
    save(copied / "host-1.opscope", 3, world=4)
    assert "rank 2" in opscope.load(copied).missing_ranks()
    assert "not in this folder: 2" in opscope.load(copied, rank=3).ledger["ranks of the job"]


def test_rollups_of_them_stay_beside_them_and_they_are_saved_as_one_folder(copied, tmp_path):
    made = make_rollups(copied, again=True)
    assert made.count == 4 and len(made.made) == 4
    assert (copied / "host-1.opscope" / "rank=00003" / "rollup.json").exists()
    assert len(opscope.load(copied).query("operators").rows) == 1
    again = opscope.load(opscope.load(copied).save(tmp_path / "one"))
    assert again.ranks == [0, 1, 2, 3]
    assert (tmp_path / "one" / "rank=00003").is_dir()


@pytest.mark.parametrize("why", ["same rank", "other size", "no rank", "no job"])
def test_folders_that_are_no_one_job_are_refused(copied, tmp_path, why):
    alone = build_trace([span("aten::mm", 0, 9)])
    if why == "same rank":
        save(copied / "host-2.opscope", 3, world=4)
    elif why == "other size":
        save(copied / "host-2.opscope", 4, world=8)
    elif why == "no rank":
        alone.save(copied / "host-0.opscope", **{PROCESS: 77})
    else:
        copied = tmp_path / "processes alone"
        for number in range(2):
            alone.save(copied / f"{number}.opscope", rank=number)
    with pytest.raises(TraceFormatError, match="but contains some"):
        opscope.load(copied)
