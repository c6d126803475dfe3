"""A folder of Chrome traces is a job: which file is which rank's, and what they say together."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
import time
from argparse import Namespace

import pytest

import opscope
from opscope.api import job as job_module
from opscope.api.job import Job
from opscope.cli.trace_argument import choose_trace
from opscope.errors import TraceFormatError, UsageError
from opscope.jobs import chrome_files as chrome_files_module
from opscope.jobs.chrome_files import chrome_files
from opscope.storage.partition import Partition
from support.random_trace import assert_same_trace


def write(file, name="aten::mm", rank=None, world=2, packed=False):
    top = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 7, "ts": 10, "dur": 5}
    text = json.dumps({"schemaVersion": 1, **top, "traceEvents": [event]})
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return file


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "a_11.1.pt.trace.json", "aten::one", rank=1)
    write(tmp_path / "b_12.2.pt.trace.json.gz", "aten::zero", rank=0, packed=True)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    return tmp_path


def rank(number):
    return Partition("rank", number)


def test_files_say_which_rank_they_are_of(folder):
    found = chrome_files(folder)
    assert {part: file.name[0] for part, file in found.items()} == {rank(0): "b", rank(1): "a"}
    assert list(found) == [rank(0), rank(1)]


def test_the_job_has_every_file(folder):
    job = opscope.load(folder)
    assert isinstance(job, Job) and job.ranks == [0, 1]
    assert [trace.event_name(0) for _, trace in job.traces()] == ["aten::zero", "aten::one"]
    rows = job.sql("select rank, name from named_events order by rank").fetchall()
    assert rows == [(0, "aten::zero"), (1, "aten::one")]
    assert opscope.load(folder, rank=1).event_name(0) == "aten::one"
    assert job.missing_ranks() == "" and job.unfinished == []
    for number, trace in job.traces():
        assert_same_trace(trace, opscope.load(folder)[number])


def test_names_of_files_say_it_where_they_do_not(tmp_path):
    write(tmp_path / "train-rank-3.json")
    write(tmp_path / "train_rank12.json")
    write(tmp_path / "host_4242.17.pt.trace.json")
    assert list(chrome_files(tmp_path)) == [rank(3), rank(12), Partition("process", 4242)]


def test_files_of_an_unknown_rank_and_two_of_one_are_refused(tmp_path):
    write(tmp_path / "a.json", "aten::alone", rank=0)
    assert opscope.load(tmp_path).event_name(0) == "aten::alone", "the only file is its trace"
    write(tmp_path / "b.json")
    with pytest.raises(UsageError, match=r"The rank of .*b.json is unknown"):
        opscope.load(tmp_path)
    write(tmp_path / "b.json", rank=0)
    with pytest.raises(UsageError, match=r"a.json and b.json in .* both belong to rank 0"):
        opscope.load(tmp_path)


def test_a_rank_that_makes_no_sense_is_none(tmp_path):
    for info in ('"x"', '{"rank": -1}', '{"rank": true}', "{", "[" * 5000):
        text = f'{{"distributedInfo": {info}, "traceEvents": []}}'
        (tmp_path / "train-rank-2.json").write_text(text)
        assert list(chrome_files(tmp_path)) == [rank(2)]


def test_a_damaged_file_is_named(folder):
    (folder / "a_11.1.pt.trace.json").write_text(
        '{"distributedInfo": {"rank": 1}, "traceEvents": 5'
    )
    job = opscope.load(folder)
    with pytest.raises(TraceFormatError, match=r"a_11\.1\.pt\.trace\.json"):
        list(job.traces())
    assert job[0].event_name(0) == "aten::zero"
    damaged = {}
    readable = [part for part, _ in job.traces(damaged.__setitem__)]
    assert rank(0) in readable and rank(1) not in readable
    assert [*damaged] == [rank(1)] and "a_11.1.pt.trace.json" in str(damaged[rank(1)])


def test_what_was_read_goes_with_the_job(folder):
    job = opscope.load(folder)
    list(job.traces())
    kept = job._source._scratch.folder
    assert kept.is_dir()
    child = os.fork()
    if child == 0:
        job = None
        os._exit(0)
    os.waitpid(child, 0)
    assert kept.is_dir()
    job = None
    assert not kept.exists()


@pytest.mark.parametrize(("left", "packed"), [(0, False), (0.3, True), (0.9, False)])
def test_a_file_that_was_cut_is_not_passed_over(tmp_path, left, packed):
    ending = ".pt.trace.json.gz" if packed else ".pt.trace.json"
    for number in range(3):
        write(tmp_path / f"rank{number}{ending}", rank=number, world=3, packed=packed)
    cut = tmp_path / f"rank1{ending}"
    cut.write_bytes(cut.read_bytes()[: int(cut.stat().st_size * left)])
    job = opscope.load(tmp_path)
    assert job.ranks == [0, 1, 2]
    with pytest.raises(TraceFormatError) as error:
        job.steps()
    assert f"rank1{ending}" in str(error.value)
    assert "choose the other ranks: --rank 0,2, or" in str(error.value)
    with pytest.raises(TraceFormatError, match="choose the other ranks: --rank 0,2, or"):
        job.sql("SELECT count(*) FROM events")
    assert len(Job(tmp_path, [0, 2]).steps().processes) == 2
    assert Job(tmp_path, [0, 2]).query("operators").processes == 2


def test_several_threads_read_each_file_once(folder, monkeypatch):
    begun, begin = [], chrome_files_module.read_files

    def counted(wanted, place):
        begun.extend(wanted)
        time.sleep(0.05)  # so that the others come meanwhile
        return begin(wanted, place)

    monkeypatch.setattr(chrome_files_module, "read_files", counted)
    files = chrome_files_module.ChromeFolder(folder, chrome_files(folder))
    threads = [threading.Thread(target=files.prepare, args=(files.parts,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(begun) == [rank(0), rank(1)]
    assert files.load(rank(0)).event_name(0) == "aten::zero"
    assert sorted(files.folders()) == [rank(0), rank(1)]


def test_processes_of_one_file_are_saved_once_for_all_questions(tmp_path, monkeypatch):
    saved = []
    for save in (job_module.save_part, job_module.save_trace):
        counted = lambda *about, save=save: saved.append(about[2]) or save(*about)  # noqa: E731
        monkeypatch.setattr(job_module, save.__name__, counted)
    event = {"ph": "X", "cat": "cpu_op", "tid": 7, "ts": 10, "dur": 5}
    events = [{**event, "name": f"aten::{n}", "pid": f"[TP0{n}] 4{n}"} for n in range(2)]
    (tmp_path / "merged.json").write_text(json.dumps({"traceEvents": events}))
    chosen = choose_trace(Namespace(trace=tmp_path / "merged.json", rank=None, process=None))
    names = chosen.job.sql("select rank, name from named_events order by rank").fetchall()
    assert names == [(0, "aten::0"), (1, "aten::1")]
    job = chosen.job
    assert job.query("operators").processes == len(job.account("all").processes) == 2
    assert saved == [rank(0), rank(1)]
    monkeypatch.setattr(chrome_files_module.ChromeFile, "unfinished", (rank(1),))  # it may grow
    assert len(job.steps().processes) == 2
    assert saved == [rank(0), rank(1), rank(1)]


def test_a_child_that_outlives_its_parent_reads_files_itself(folder):
    files = chrome_files_module.ChromeFolder(folder, chrome_files(folder))
    files.prepare(files.parts)
    (read,) = {one.parent for one in files.folders().values()}
    shutil.rmtree(read)  # as its parent does at its end
    assert files.load(rank(1)).event_name(0) == "aten::one"
    assert files.folders() == {}
