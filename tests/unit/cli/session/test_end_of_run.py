"""What the process does that a program asks at its end; here with a trace that is saved already."""

import os
from dataclasses import replace

import pytest

import opscope
from opscope.cli.session import end_of_run as module
from opscope.cli.session.end_of_run import end_of_run
from opscope.cli.session.job_results import job_of_last_rank
from opscope.cli.views.console import Messages
from opscope.columns.metadata_kinds import STEPS
from opscope.columns.schema import EventKind
from opscope.jobs.saving import save_trace
from opscope.recording.streams.trace_request import Destination, EndRequest
from opscope.storage.manifest import MANIFEST
from opscope.storage.partition import RANK, Partition
from support.build_trace import build_trace, span


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """About a trace of a few operators, and of steps that take 100 µs each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_NEVER_FIRST", 0)
    name = "Optimizer.step#SGD.step"
    steps = [span(name, 100 * n, 100 * n + 100, kind=EventKind.ANNOTATION) for n in range(4)]
    saved = build_trace([*steps, span("aten::mm", 500, 600)]).save(tmp_path / "t")
    files = Destination(tmp_path / "t", tmp_path / "t.json")
    return EndRequest(
        destination=files,
        table=True,
        why=False,
        rank=None,
        process=None,
        with_children=False,
        folder=tmp_path,
        saved=saved,
    )


def test_all_that_was_requested_is_made(asked, capfd):
    end_of_run(asked, Messages(animated=False))
    lines = capfd.readouterr().err
    assert "aten::mm" in lines and "trace written to" in lines and "most time: " in lines
    assert "Chrome trace written to" in lines and asked.destination.chrome.exists()


def test_what_fails_costs_nothing_else(asked, monkeypatch, capfd):
    def fail(*_, **__):
        raise RuntimeError("no table today")

    monkeypatch.setattr(module, "find_top_operators", fail)
    end_of_run(asked, Messages(animated=False))
    said = capfd.readouterr().err
    assert "no table today" in said and "most time: " in said
    assert asked.destination.chrome.exists()


def test_a_cycle_is_written_while_the_program_runs_and_shown_at_its_end(asked, capfd):
    end_of_run(replace(asked, is_shown=False), Messages(animated=False))
    assert asked.destination.chrome.exists() and capfd.readouterr().err == ""
    seen = {"ended": 11, "passed_ns": 10_000_000}
    more = replace(asked, is_written=True, facts={"metadata": {STEPS: seen}})
    end_of_run(more, Messages(animated=False))
    assert opscope.load(asked.destination.trace).metadata[STEPS] == seen
    lines = capfd.readouterr().err
    assert "recorded steps cover 10% of the program's time" in lines and "most time: " in lines
    assert "aten::mm" in lines and "Chrome trace written to" in lines


def test_a_trace_that_went_meanwhile_is_no_error(asked, tmp_path, capfd):
    gone = Destination(tmp_path / "gone")
    end_of_run(
        replace(asked, is_written=True, destination=gone, facts={"metadata": {}}),
        Messages(animated=False),
    )
    assert capfd.readouterr().err == ""


def test_a_recording_that_cannot_be_read_is_kept(asked, tmp_path, capfd):
    recording = tmp_path / "t" / ".recording-1-1.opscope"
    recording.write_bytes(b"nothing")
    end_of_run(replace(asked, saved=None, recording=recording), Messages(animated=False))
    said = capfd.readouterr().err
    assert "could not be written" in said and "opscope doctor --recover" in said
    assert recording.exists() and os.listdir(tmp_path / "t")


def ranks_written(folder, *, count, size=2):
    """Traces of ranks of a job, written one after the other; the last."""
    for rank in range(count):
        job = {"distributedInfo": {"rank": rank, "world_size": size}, "start_ns": 1}
        trace = build_trace([span("aten::mm", 0, 100)], metadata=job)
        saved = save_trace(trace, folder, Partition(RANK, rank))
        os.utime(saved / MANIFEST, ns=(1000 * (rank + 1), 1000 * (rank + 1)))
    return saved


def test_the_rank_whose_trace_comes_last_shows_the_answer_of_all(tmp_path, asked, capfd):
    ranks_written(tmp_path / "some", count=2, size=3)
    assert all(job_of_last_rank(tmp_path / "some", rank) is None for rank in range(3))
    saved = ranks_written(tmp_path / "all", count=2)
    assert job_of_last_rank(tmp_path / "all", 0) is None
    assert len(job_of_last_rank(tmp_path / "all", 1)) == 2
    end_of_run(replace(asked, rank=1, saved=saved, table=False), Messages(animated=False))
    assert "all ranks: verdict: " in capfd.readouterr().err
