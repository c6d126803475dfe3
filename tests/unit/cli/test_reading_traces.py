"""Traces that cannot be read: one paragraph, no traceback, not 0."""

import pytest

import opscope
from support.build_trace import build_trace, span
from support.hostile_sources import built_trace
from support.rewritten_trace import change_row


def arguments_for(command, trace, tmp_path):
    extra = {"summary": [], "sql": ["select 1"], "export": ["-o", tmp_path / "out.json"]}
    return [command, trace, *extra[command]]


@pytest.fixture(params=["summary", "sql", "export"])
def read(request, command_line, tmp_path):
    return lambda trace: command_line(*arguments_for(request.param, trace, tmp_path))


def test_missing(read, tmp_path):
    assert "There is no trace at" in read(tmp_path / "nothing").complaint


def test_damaged(read, trace_folder):
    events = trace_folder / "rank=00000" / "events.parquet"
    events.write_bytes(events.read_bytes()[:-20])
    assert "damaged" in read(trace_folder).complaint


def test_several_processes(command_line, trace_folder):
    opscope.load(trace_folder).save(trace_folder, process=4242)
    complaint = command_line("export --replay", trace_folder).complaint
    assert "several processes: 0, process 4242. Choose one with --rank or --process." in complaint
    assert command_line("why --all", trace_folder, "--process", 4242).code == 0
    assert "exclude each other" in (
        command_line("why --all", trace_folder, "--process", 4242, "--rank", 0).complaint
    )


@pytest.mark.parametrize("suffix", ["json", "pftrace"])
def test_pictures_of_several_show_all(command_line, trace_folder, tmp_path, suffix):
    opscope.load(trace_folder).save(trace_folder, process=4242)
    outcome = command_line("export", trace_folder, "-o", tmp_path / f"out.{suffix}")
    assert outcome.code == 0
    assert "2 processes together, on one clock" in outcome.err
    if suffix == "json":
        one = opscope.load(trace_folder, rank=0)
        read = opscope.load(tmp_path / "out.json")
        assert [len(trace.events) for _, trace in read.traces()] == [len(one.events)] * 2


def test_ranks_that_are_missing_are_reported(command_line, read, tmp_path):
    info = {"distributedInfo": {"rank": 0, "world_size": 2}}
    build_trace([span("aten::mm", 0, 10)], metadata=info).save(tmp_path / "job")
    outcome = read(tmp_path / "job")
    assert outcome.code == 0
    assert "rank 1 of 2 is not in this folder: the job is incomplete" in outcome.err
    for rank in (0, 2):
        info = {"distributedInfo": {"rank": rank, "world_size": 3}}
        trace = build_trace([span("aten::mm", 0, 10)], metadata=info)
        trace.save(tmp_path / "three", rank=rank)
    assert "rank 1 of 3 is not in this folder" in command_line("ranks", tmp_path / "three").err


def test_empty_trace_is_not_a_success(command_line, tmp_path):
    build_trace([]).save(tmp_path / "empty.opscope")
    for command in ("summary", "export"):
        outcome = command_line(*arguments_for(command, tmp_path / "empty.opscope", tmp_path))
        assert "contains no events" in outcome.complaint
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("name", ["x" * 300, "/dev/zero", "loop"])
def test_paths_that_are_no_trace_end_in_a_sentence(command_line, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for command, *more in (["memory"], ["report"], ["sql", "select 1"]):
        assert "Check the path" in command_line(command, name, *more).complaint, command


def test_memory_that_runs_out_in_a_command_ends_in_a_sentence(
    command_line, trace_folder, monkeypatch
):
    def full(*arguments, **settings):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("opscope.cli.why.find_findings", full)
    outcome = command_line("why --all", trace_folder)
    assert outcome.code == 1
    assert "not enough memory for this command" in outcome.complaint


def test_what_a_newer_opscope_recorded_is_reported(command_line, tmp_path):
    rank = built_trace().save(tmp_path / "t")
    for row in (3, 5):
        change_row(rank, "events", "kind", row, 13)
    change_row(rank, "gpu", "kind", 0, 9)
    outcome = command_line("summary", tmp_path / "t")
    assert outcome.code == 0
    assert "newer opscope: 1 DROPPED (gpu of kind 9)" in outcome.err
    assert "from a newer opscope (upgrade to see it): 2 events of kind 13 shown as unknown" in (
        outcome.err
    )
