"""TRACE: which one is read, a part of it, and what is said of one that cannot be read."""

import os

import pytest

import opscope
from opscope.storage.partition import PROCESS, Partition
from opscope.storage.store import save_part
from support.build_trace import build_trace, span
from support.hostile_sources import built_trace
from support.rewritten_trace import change_row


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Saves a trace of one operator in the current folder, written at ``time``."""
    monkeypatch.chdir(tmp_path)

    def call(name, operator, time):
        rank = build_trace([span(operator, 0, 10)]).save(tmp_path / name)
        os.utime(rank / "manifest.json", (time, time))

    return call


def test_the_newest_in_this_folder(command_line, save):
    save("train.opscope", "aten::mm", 100)
    save("train-2.opscope", "aten::add", 300)
    save("eval.opscope", "aten::sub", 200)
    outcome = command_line("summary", "--format", "csv")
    assert outcome.out.splitlines()[1].startswith("aten::add,")
    assert "opscope: train-2.opscope, the newest trace in this folder" in outcome.err


def test_a_query_needs_no_trace_before_it(command_line, save):
    save("train.opscope", "aten::mm", 100)
    outcome = command_line("sql", "select name from named_events", "--format", "csv")
    assert outcome.out.splitlines() == ["name", "aten::mm"]


def test_none_here(command_line, save, tmp_path):
    (tmp_path / "empty.opscope").mkdir()
    outcome = command_line("why --all")
    assert outcome.code == 2
    assert outcome.complaint == (
        f"There is no trace in {tmp_path}. Record one with `opscope run train.py`, or name a trace."
    )


_SECOND = 1_000_000


@pytest.fixture
def two_processes(tmp_path):
    """Each runs an operator of its own in the first second, and one of both in the third."""
    for number, name in ((11, "aten::mm"), (12, "aten::add")):
        spans = [span(name, 0, _SECOND), span("aten::relu", 2 * _SECOND, 3 * _SECOND)]
        save_part(build_trace(spans), tmp_path / "t", Partition(PROCESS, number))
    return str(tmp_path / "t")


def names(outcome):
    return [line.split(",")[0] for line in outcome.out.splitlines()[1:]]


def test_a_range_is_of_the_process_that_is_chosen(command_line, two_processes):
    command = ("summary", two_processes, "--format", "csv", "--process", "12")
    assert names(command_line(*command, "--range", "0..1.5")) == ["aten::add"]
    assert names(command_line(*command, "--range", "1.5..4")) == ["aten::relu"]


@pytest.mark.parametrize("command", ["summary", "report"])
def test_a_range_of_several_processes_asks_for_one(command_line, two_processes, command):
    outcome = command_line(command, two_processes, "--range", "0..1")
    assert outcome.code == 2
    assert outcome.complaint == (
        f"{two_processes} holds several processes (process 11, process 12). Choose one: "
        "--process 11, or load(path, process=11)."
    )


@pytest.mark.parametrize("text", ["5", "3..1", "a..b", "-1..2"])
def test_what_is_no_range_is_refused(command_line, two_processes, text):
    outcome = command_line("summary", two_processes, "--process", "11", f"--range={text}")
    assert outcome.code == 2
    assert "Give two numbers, the smaller first" in outcome.complaint


def test_a_range_and_steps_at_once_are_refused(command_line, two_processes):
    options = ("--process", "11", "--range", "0..1", "--steps", "1..2")
    outcome = command_line("summary", two_processes, *options)
    assert outcome.code == 2
    assert "Use only one" in outcome.complaint


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
    assert "several processes (0, process 4242). Choose one: --rank 0, or load(path" in complaint
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
