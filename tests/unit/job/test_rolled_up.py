"""Answers about jobs from rollups: as from the traces, and these where rollups are wrong."""

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

from opscope.analysis.account.causes import Cause
from opscope.errors import TraceFormatError
from opscope.job import job as job_module
from opscope.job import rolled_up as rolled_up_module
from opscope.job.job import Job
from opscope.job.make_rollups import make_rollups
from opscope.rollup import several
from opscope.rollup.places import process_places
from opscope.rollup.read import Rollup
from opscope.trace.manifest import ROLLUP
from opscope.trace.partition import Partition
from support.build_trace import build_trace, span
from support.job_of_collectives import rank_trace as rank_trace_of
from support.random_trace import random_trace

# What memory was for is told with torch, which is imported for no rollup of what is saved.
pytest.importorskip("torch", reason="rollups of what memory was for take torch")


def rank_trace(work_us=100, steps=12):
    spans = []
    for number in range(steps):
        start = number * 200
        spans += [
            span(f"ProfilerStep#{number}", start, start + 200),
            span("aten::mm", start, start + work_us + number % 3),
            span("c10d::allreduce_", start + work_us + 5, start + 190),
        ]
    return build_trace(spans)


def save_job(folder, works=(100, 101, 160, 102)):
    for rank, work_us in enumerate(works):
        rank_trace(work_us).save(folder, rank=rank)
    return folder


def without_rollups(folder):
    for file in folder.glob("*/*rollup*"):
        file.unlink()
    return folder


def loaded(monkeypatch):
    """Which processes' traces are read from now on."""
    read = []
    original = job_module.find_recordings

    def find(path):
        source = original(path)
        load = source.load
        source.load = lambda part: (read.append(str(part)), load(part))[1]
        return source

    monkeypatch.setattr(job_module, "find_recordings", find)
    return read


def assert_same_steps(one, other):
    assert one.processes == other.processes and one.steps_are == other.steps_are
    for name in ("number", "wall_ns", "own_ns", "table_ns", "cause_ns"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def assert_same_accounts(one, other):
    assert one.processes == other.processes and one.step_ns == other.step_ns
    assert np.allclose(one.shares, other.shares, rtol=0, atol=1e-15)  # summed in another order


def test_steps_and_accounts_are_the_same_both_ways(tmp_path, monkeypatch):
    folder = save_job(tmp_path)
    read = loaded(monkeypatch)
    steps, slow = Job(folder).steps(), Job(folder).slow_ranks().as_dict()
    accounts = {which: Job(folder).account(which) for which in ("all", "steady")}
    assert not read  # where the slow rank is slow, too, is in rollups
    without_rollups(folder)
    assert_same_steps(Job(folder).steps(), steps)
    assert "rank 0" in read
    assert Job(folder).slow_ranks().as_dict() == slow and slow["slow"][0]["rank"] == 2
    for which, account in accounts.items():
        assert_same_accounts(Job(folder).account(which), account)


def test_of_many_events_what_is_missing_is_made_beside_each_other(tmp_path, monkeypatch):
    folder = save_job(tmp_path)
    there = Job(folder)
    steps, slow, all_time = there.steps(), there.slow_ranks().as_dict(), there.account("all")
    collectives = there.collectives()
    without_rollups(folder)
    monkeypatch.setattr(several, "_FEW_EVENTS", 12 * 3 * len(there) - 1)
    read = loaded(monkeypatch)
    assert_same_steps(Job(folder).steps(), steps)
    assert_same_accounts(Job(folder).account("all"), all_time)
    assert str(Job(folder).collectives().clocks) == str(collectives.clocks)
    assert len(Job(folder).collectives()) == len(collectives)
    assert not read
    assert Job(folder).slow_ranks().as_dict() == slow
    assert set(read) <= {"rank 1", "rank 2"}  # where it is slow is asked of few
    read.clear()
    monkeypatch.setattr(several, "_FEW_EVENTS", 12 * 3 * len(there))
    assert_same_steps(Job(folder).steps(), steps)
    assert len(read) == 4
    monkeypatch.setattr(several, "_FEW_EVENTS", 0)
    with monkeypatch.context() as full_disk:
        full_disk.setattr(
            rolled_up_module, "roll_up_several", lambda wanted, _: dict.fromkeys(wanted, "full")
        )
        assert_same_steps(Job(folder).steps(), steps)
    (folder / "rank=00001" / "events.parquet").write_bytes(b"nothing")
    with pytest.raises(TraceFormatError, match=r"events\.parquet is damaged"):
        Job(folder).steps()


@pytest.mark.parametrize("seed", range(8))
def test_whatever_was_recorded(tmp_path, seed):
    for rank in range(3):
        random_trace(seed * 3 + rank).save(tmp_path, rank=rank)
        assert Rollup.of(tmp_path / f"rank={rank:05d}") is not None
    steps, account = Job(tmp_path).steps(), Job(tmp_path).account()
    without_rollups(tmp_path)
    assert_same_steps(Job(tmp_path).steps(), steps)
    assert_same_accounts(Job(tmp_path).account(), account)


@pytest.mark.parametrize("seed", range(12))
def test_places_are_the_same_both_ways(tmp_path, seed):
    trace = random_trace(seed)
    written, made = Rollup.of(trace.save(tmp_path, rank=0)).places(), process_places(trace)
    for name in ("steps", "time_ns", "own_line"):
        assert getattr(written, name) == getattr(made, name), name


def test_a_rank_without_steps_has_its_causes_both_ways(tmp_path):
    build_trace([span("aten::mm", 0, 7)]).save(tmp_path, rank=0)
    rank_trace().save(tmp_path, rank=1)
    steps = Job(tmp_path).steps()
    assert steps.cause_ns[0, Cause.OPERATOR] == 7_000
    assert_same_steps(Job(without_rollups(tmp_path)).steps(), steps)


def test_a_process_without_events_is_passed_over_both_ways(tmp_path):
    rank_trace().save(tmp_path, rank=0)
    build_trace("").save(tmp_path, rank=1)
    assert Job(tmp_path).steps().processes == (Partition("rank", 0),)
    without_rollups(tmp_path)
    assert Job(tmp_path).steps().processes == (Partition("rank", 0),)


def test_nothing_in_any_is_an_error_both_ways(tmp_path):
    for rank in range(2):
        build_trace("").save(tmp_path, rank=rank)
    for _ in range(2):
        with pytest.raises(TraceFormatError, match="holds no event of any process"):
            Job(tmp_path).steps()
        without_rollups(tmp_path)


def test_of_a_wrong_rollup_the_trace_is_read(tmp_path, monkeypatch):
    folder = save_job(tmp_path)
    steps = Job(folder).steps()
    (folder / "rank=00001" / ROLLUP).write_text("{}")
    file = folder / "rank=00003" / "rollup_steps.parquet"
    file.write_bytes(b"PAR1" + b"\xff" * (file.stat().st_size - 4))
    read = loaded(monkeypatch)
    assert_same_steps(Job(folder).steps(), steps)
    assert read == ["rank 1", "rank 3"]


def test_a_trace_that_was_replaced_counts(tmp_path):
    folder = save_job(tmp_path)
    kept = {file.name: file.read_bytes() for file in (folder / "rank=00000").glob("rollup*")}
    rank_trace(150).save(folder, rank=0)
    for name, content in kept.items():  # as if only the tables had been copied
        (folder / "rank=00000" / name).write_bytes(content)
    assert Job(folder).steps().mean_own_ns[0] > 150_000


def test_only_missing_rollups_are_made(tmp_path):
    folder = save_job(tmp_path)
    assert make_rollups(folder).made == ()
    (folder / "rank=00002" / ROLLUP).unlink()
    made = make_rollups(folder)
    assert (made.count, made.made, made.failed) == (4, (Partition("rank", 2),), {})
    assert len(make_rollups(folder, again=True).made) == 4
    assert all(Rollup.of(part) for part in folder.iterdir())
    assert make_rollups(tmp_path / "nothing").count == 0


def test_those_made_for_a_question_go_with_the_job(tmp_path):
    folder = without_rollups(save_job(tmp_path / "job"))
    job = Job(folder)
    folders = job._source.folders()
    made = job._rolled_up.all(folders)
    assert list(made) == list(job) and not list(folder.glob("*/rollup*"))
    places = {rollup.folder for rollup in made.values()}
    assert all(place.is_dir() for place in places)
    assert {one.folder for one in job._rolled_up.all(folders).values()} == places  # once
    rank_trace(180).save(folder, rank=1)
    assert job._rolled_up.all(folders)[Partition("rank", 1)].folder == folder / "rank=00001"
    del job, made
    assert not any(place.exists() for place in places)


def test_what_cannot_be_added_up_for_a_question_is_said(tmp_path):
    folder = without_rollups(save_job(tmp_path))
    (folder / "rank=00001" / "events.parquet").unlink()
    job = Job(folder)
    with pytest.raises(TraceFormatError, match=r"events\.parquet is damaged"):
        job._rolled_up.all(job._source.folders())


def test_collectives_are_the_same_both_ways(tmp_path, monkeypatch):
    for rank, late in enumerate([0, 40, 20]):
        calls = [("allreduce_", (), at + late, at + late + 10, at + 100) for at in (0, 200, 400)]
        groups = None if rank else {"0xab": {"pg_name": "0", "ranks": [0, 1, 2]}, "0xcd": {}}
        rank_trace_of(range(3), calls, groups=groups).save(tmp_path, rank=rank)
    build_trace([span("gloo:barrier", 0, 1, "pool", is_async=True)]).save(tmp_path, rank=3)
    read = loaded(monkeypatch)
    rolled_up = Job(tmp_path).collectives()
    assert read == []
    found = Job(without_rollups(tmp_path)).collectives()
    assert len(found) == 3 and found.unmatched["transfers without a call"] == 1
    for name, value in vars(found).items():
        if name == "clocks":
            assert str(value) == str(rolled_up.clocks)
        else:
            assert np.array_equal(value, getattr(rolled_up, name)), name


QUESTIONS = ("ranks", "steps", "operators", "modules", "lines", "spread", "causes", "losses")


def answers_of(job, questions=QUESTIONS):
    return {one: job.query(one).as_dicts() for one in questions}


def test_several_threads_may_ask_one_job(tmp_path, monkeypatch):
    folder = without_rollups(save_job(tmp_path / "job"))
    expected = answers_of(Job(folder))
    made = []
    add_up = rolled_up_module.roll_up_several

    def slowly(wanted, tables):
        made.append(sorted(tables))
        time.sleep(0.05)  # so that the others come meanwhile
        return add_up(wanted, tables)

    monkeypatch.setattr(rolled_up_module, "roll_up_several", slowly)
    job = Job(folder)
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        asked = {one: pool.submit(job.query, one) for one in QUESTIONS}
        found = {one: answer.result().as_dicts() for one, answer in asked.items()}
    assert found == expected
    assert len(made) == 2  # what the first asked for, and then all for the others


@pytest.mark.parametrize("rolled_up", [True, False])
def test_a_job_that_was_asked_can_be_copied_and_sent(tmp_path, rolled_up):
    folder = save_job(tmp_path / "job")
    job = Job(folder if rolled_up else without_rollups(folder))
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
    (folder / "rank=00002" / "events.parquet").write_bytes(b"damaged")
    assert Job(folder).incomplete() == ()


def test_processes_without_any_event_are_named(tmp_path):
    folder = save_job(tmp_path / "job")
    build_trace([]).save(folder, rank=9)
    answer = Job(folder).query("spread")
    assert (answer.silent, answer.processes) == ((Partition("rank", 9),), 4)
    assert Job(folder).only([0, 1]).query("spread").silent == ()


def test_forked_children_add_up_for_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = without_rollups(save_job(tmp_path / "job"))
    expected = answers_of(Job(folder), ["operators"])
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
