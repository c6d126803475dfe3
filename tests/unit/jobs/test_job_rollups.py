"""Answers about jobs from rollups, which are made where they are missing or wrong."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from opscope.api.job import Job
from opscope.errors import UnreadableProcessError, UsageError
from opscope.jobs import job_rollups as rolled_up_module
from opscope.jobs.account_comparison import compare_accounts
from opscope.jobs.rollup.read import Rollup
from opscope.storage.partition import Partition
from opscope.timeline.period import Which
from support.build_trace import build_trace, span
from support.random_trace import random_trace
from support.step_programs import rank_program

PERIODS = (Which.ALL, Which.STEADY)

# What memory was for is told with torch, which is imported for no rollup of what is saved.
pytest.importorskip("torch", reason="rollups of what memory was for take torch")


def rank_trace(work_us=100):
    return rank_program(steps=12, work_us=work_us, wait_us=200 - work_us)


def save_job(folder, works=(100, 101, 160, 102)):
    for rank, work_us in enumerate(works):
        rank_trace(work_us).save(folder, rank=rank)
    return folder


def without_rollups(folder):
    for file in folder.glob("*/*rollup*"):
        file.unlink()
    return folder


def assert_same_steps(one, other):
    assert one.processes == other.processes and one.steps_are == other.steps_are
    for name in ("number", "wall_ns", "own_ns", "table_ns", "cause_ns"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def assert_same_accounts(one, other):
    assert one.processes == other.processes and one.step_ns == other.step_ns
    assert np.allclose(one.shares, other.shares, rtol=0, atol=1e-15)  # summed in another order


def test_what_is_missing_is_made_beside_the_traces(tmp_path):
    folder = save_job(tmp_path)
    steps, slow = Job(folder).steps(), Job(folder).slow_ranks().as_dict()
    assert slow["slow"][0]["rank"] == 2
    accounts = {which: Job(folder).account(which) for which in PERIODS}
    without_rollups(folder)
    assert_same_steps(Job(folder).steps(), steps)
    assert all(Rollup.of(part) for part in folder.iterdir())
    assert Job(folder).slow_ranks().as_dict() == slow
    for which, account in accounts.items():
        assert_same_accounts(Job(folder).account(which), account)
    without_rollups(folder)
    (folder / "rank=00001" / "events.parquet").write_bytes(b"nothing")
    with pytest.raises(UnreadableProcessError, match=r"events\.parquet is damaged") as told:
        Job(folder).steps()
    assert told.value.part == Partition("rank", 1)


@pytest.mark.parametrize("seed", range(2))
def test_steps_and_accounts_are_those_of_the_traces(tmp_path, seed):
    traces = [random_trace(seed * 3 + rank) for rank in range(3)]
    for rank, trace in enumerate(traces):
        trace.save(tmp_path, rank=rank)
        assert Rollup.of(tmp_path / f"rank={rank:05d}") is not None
    steps = Job(tmp_path).steps()
    for row, trace in enumerate(traces):
        account = trace.account("all")
        column = np.searchsorted(steps.number, account.steps.number)
        assert np.array_equal(steps.table_ns[row, column], account.table())
        took_ns = account.steps.end_ns - account.steps.start_ns
        assert np.array_equal(steps.wall_ns[row, column], took_ns)
    for which in PERIODS:
        accounts = {Partition("rank", n): one.account(which) for n, one in enumerate(traces)}
        assert_same_accounts(Job(tmp_path).account(which), compare_accounts(accounts))


def test_a_trace_that_was_replaced_counts(tmp_path):
    folder = save_job(tmp_path)
    kept = {file.name: file.read_bytes() for file in (folder / "rank=00000").glob("rollup*")}
    rank_trace(150).save(folder, rank=0)
    for name, content in kept.items():  # as if only the tables had been copied
        (folder / "rank=00000" / name).write_bytes(content)
    assert Job(folder).steps().mean_own_ns[0] == 150_000
    with pytest.raises(UsageError, match="no recognisable start-up"):
        Job(folder).account("start-up")


def test_where_nothing_can_be_written_they_go_with_the_job(tmp_path, monkeypatch):
    folder = without_rollups(save_job(tmp_path / "job"))
    with monkeypatch.context() as read_only:
        read_only.setattr(rolled_up_module.os, "access", lambda *_: False)
        job = Job(folder)
        made = job._rollups()
        assert list(made) == list(job) and not list(folder.glob("*/rollup*"))
        places = {rollup.folder for rollup in made.values()}
        assert all(place.is_dir() for place in places)
        assert {one.folder for one in job._rollups().values()} == places  # once
    rank_trace(180).save(folder, rank=1)
    assert job._rollups()[Partition("rank", 1)].folder == folder / "rank=00001"
    del job, made
    assert not any(place.exists() for place in places)


QUESTIONS = ("ranks", "steps", "operators", "modules", "lines", "spread", "causes", "losses")


def answers_of(job, questions=QUESTIONS):
    return {one: job.query(one).as_dicts() for one in questions}


def test_several_threads_may_ask_one_job(tmp_path, monkeypatch):
    folder = save_job(tmp_path / "job")
    expected = answers_of(Job(folder))
    without_rollups(folder)
    made = []
    add_up = rolled_up_module.roll_up_several

    def slowly(wanted):
        made.append(sorted(wanted))
        time.sleep(0.05)  # so that the others come meanwhile
        return add_up(wanted)

    monkeypatch.setattr(rolled_up_module, "roll_up_several", slowly)
    job = Job(folder)
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        asked = {one: pool.submit(job.query, one) for one in QUESTIONS}
        found = {one: answer.result().as_dicts() for one, answer in asked.items()}
    assert found == expected
    assert len(made) == 1


def test_a_job_that_was_asked_can_be_copied_and_sent(tmp_path):
    job = Job(without_rollups(save_job(tmp_path / "job")))
    expected = answers_of(job, ["ranks", "operators"])
    for other in (pickle.loads(pickle.dumps(job)), copy.deepcopy(job), copy.copy(job)):
        assert answers_of(other, ["ranks", "operators"]) == expected
    sent = pickle.dumps(job)
    del job
    gc.collect()
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).query('ranks').as_dicts())"
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert done.stdout.decode().strip() == str(expected["ranks"]), done.stderr.decode()


@pytest.mark.parametrize("value", [0.25, 3.0, -1.0])
def test_of_whom_not_all_is_there_does_not_depend_on_rollups(tmp_path, value):
    folder = save_job(tmp_path / "job")
    ledger = {"events": {"dropped: a": value, "dropped: b": 0.0}}
    build_trace([span("aten::mm", 0, 9)], ledger=ledger).save(folder, rank=2)
    expected = (Partition("rank", 2),) if value > 0 else ()
    assert Job(folder).incomplete() == Job(folder).query("ranks").incomplete == expected
    job = Job(without_rollups(folder))
    assert job.incomplete() == job.query("ranks").incomplete == job.incomplete() == expected
    without_rollups(folder)
    (folder / "rank=00002" / "events.parquet").write_bytes(b"damaged")
    assert Job(folder).incomplete() == ()


def test_forked_children_add_up_for_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = save_job(tmp_path / "job")
    expected = answers_of(Job(folder), ["operators"])
    without_rollups(folder)
    monkeypatch.setattr(rolled_up_module.os, "access", lambda *_: False)
    job = Job(folder)
    job.query("losses")
    (before,) = (tmp_path / "temporary").iterdir()
    kept = sorted(before.rglob("*"))
    waits = job._rolled_up._scratch.lock
    children = []
    for _ in range(3):
        with waits:  # as if a thread of the parent added up
            child = os.fork()
            if not child:
                signal.alarm(60)
                os._exit(0 if answers_of(job, ["operators"]) == expected else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert sorted(before.rglob("*")) == kept
    del job
    gc.collect()
    Job(folder).query("losses")  # what children left that end without a word goes by then
    assert list((tmp_path / "temporary").iterdir()) == []
