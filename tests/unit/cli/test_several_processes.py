"""Commands about a folder of several processes, none of which was chosen: they answer for all."""

import csv
import io
import json

import pytest

import opscope
from opscope.columns.codes import EventKind
from support.build_trace import allocation, build_trace, span, tensor

MILLISECOND = 1_000


def rank_trace(slow=False, memory=4096):
    """Steps of a training with the same product again and again; a slow one copies to the host."""
    spans = []
    for step in range(12):
        begin = step * 10 * MILLISECOND
        spans.append(
            span(f"ProfilerStep#{step}", begin, begin + 10 * MILLISECOND, kind=EventKind.ANNOTATION)
        )
        took = 6 if slow else 1
        spans.append(
            span("aten::mm", begin + 100, begin + took * MILLISECOND, inputs=[tensor(64, 64)] * 2)
        )
    return build_trace(spans, allocations=[allocation(150, memory)])


@pytest.fixture
def job(tmp_path):
    for rank in range(4):
        rank_trace(slow=rank == 2, memory=4096 << rank).save(tmp_path / "job", rank=rank)
    build_trace([span("aten::add", 0, 100)]).save(tmp_path / "job", process=4242)
    return tmp_path / "job"


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_why_shows_all_and_who_has_more_of_what(command_line, job):
    outcome = command_line("why", job)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    shown = [line.split("  ")[0] for line in lines if line.startswith(("rank", "process"))]
    assert shown[:5] == ["rank 0", "rank 1", "rank 2", "rank 3", "process 4242"]
    assert "operators: 59% in rank 2, 9.0% in the median of 4." in lines


@pytest.mark.parametrize("command", ["why", "why --all", "memory"])
def test_json_and_csv_of_all_are_those_of_each(command_line, job, command):
    together = json.loads(command_line(command, job, "--format", "json").out)["processes"]
    alone = json.loads(command_line(command, job, "--rank", "2", "--format", "json").out)
    assert [one for one in together if one.get("rank") == 2] == [{"rank": 2, **alone}]
    together = rows_of(command_line(command, job, "--format", "csv").out)
    alone = rows_of(command_line(command, job, "--rank", "2", "--format", "csv").out)
    assert [row for row in together if row["process"] == "rank 2"] == [
        {"process": "rank 2", **row} for row in alone
    ]


def test_memory_shows_the_fullest_first_and_of_whom_nothing_is_known(command_line, job):
    outcome = command_line("memory", job)
    shown = [line.split("  ")[0] for line in outcome.out.splitlines()[1:]]
    assert shown == ["rank 3", "rank 2", "rank 1", "rank 0"]
    assert "process 4242: Memory was not recorded" in outcome.err


def test_what_is_the_same_in_several_is_reported_once(command_line, tmp_path):
    for rank in range(3):
        spans = [
            span("aten::item", at * 1000, at * 1000 + 500, inputs=[tensor(1)]) for at in range(40)
        ]
        build_trace([span("step", 0, 41_000), *spans]).save(tmp_path / "job", rank=rank)
    alone = opscope.load(tmp_path / "job", rank=0).findings()
    outcome = command_line("why --all", tmp_path / "job")
    for finding in alone:
        assert outcome.out.count(finding.title) == 1
        assert f"{finding.title}, in all 3 processes" in outcome.out
    assert "No process differs much from the others" in command_line("why", tmp_path / "job").out
    assert "all 3 processes: " in outcome.out.splitlines()[-1] or "all 3 processes: " in outcome.out


def test_ranks_that_another_job_left_and_jobs_without_memory_are_reported(command_line, tmp_path):
    for rank, size in ((0, 2), (1, 2), (2, 3)):
        about = {"distributedInfo": {"rank": rank, "world_size": size}, "start_ns": 1, "end_ns": 2}
        build_trace([span("aten::mm", 0, 10)], metadata=about).save(tmp_path / "job", rank=rank)
    outcome = command_line("summary", tmp_path / "job")
    said = " ".join((outcome.out + outcome.err).split())
    assert "rank 2 is from another job than the rest of this folder" in said
    assert "No process in" in command_line("memory", tmp_path / "job").complaint.splitlines()[-1]


def test_a_process_without_events_is_passed_over_and_named(command_line, tmp_path):
    rank_trace().save(tmp_path / "job", rank=0)
    build_trace([]).save(tmp_path / "job", rank=1)
    outcome = command_line("why --all", tmp_path / "job")
    assert outcome.code == 0 and "without any event: 1" in outcome.err
    build_trace([]).save(tmp_path / "job", rank=0)
    assert "contains no events" in command_line("why", tmp_path / "job").complaint


@pytest.mark.parametrize("how", ["empty", "cut", "gone", "newer"])
def test_a_process_that_cannot_be_read_is_not_said_to_have_done_nothing(command_line, job, how):
    part = job / "rank=00001"
    if how == "empty":
        for file in part.iterdir():
            file.unlink()
    elif how == "cut":
        (part / "events.parquet").write_bytes(b"PAR1")
    elif how == "gone":
        (part / "events.parquet").unlink()
    else:
        manifest = json.loads((part / "manifest.json").read_text())
        (part / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 999}))
    outcome = command_line("summary", job)
    row = next(line for line in outcome.out.splitlines() if "(rank 1)" in line)
    assert "cannot be read" in row and " 0 " not in row
    assert str(part) in outcome.err
    other = next(line for line in outcome.out.splitlines() if "(rank 2)" in line)
    assert "cannot be read" not in other


def test_a_process_is_named_by_its_folder_where_nothing_else_says_which_it_is(
    command_line, tmp_path
):
    for process in (11, 12):
        rank_trace().save(tmp_path / "job", process=process)
    rows = json.loads(command_line("summary", tmp_path / "job", "--format", "json").out)
    assert [row["process"] for row in rows["processes"]] == [11, 12]
    assert [row["time_ns"] for row in rows["processes"]] == [None, None]  # nothing says it


def test_a_folder_of_several_jobs_says_which_there_are(command_line, tmp_path):
    for name in ("first", "second"):
        for rank in range(2):
            rank_trace().save(tmp_path / "both" / name, rank=rank)
    for command in ("ranks", "why", "summary"):
        complaint = command_line(command, tmp_path / "both").complaint
        assert "Choose one" in complaint and str(tmp_path / "both" / "second") in complaint


COMPARING = ("ranks", "ranks --collectives", "ranks --ask ranks")


def test_what_one_process_lacks_is_reported(command_line, job, tmp_path):
    assert "rank 1 alone cannot be compared" in command_line("ranks", job, "--rank", "1").complaint
    assert "has no rank 9" in command_line("ranks", job, "--rank", "9").complaint
    rank_trace().save(tmp_path / "one", rank=0)
    alone = command_line("ranks", tmp_path / "one").complaint
    assert "one contains one process, which cannot be compared" in alone


def damage(*ranks):
    for rank in ranks:
        for name in ("rollup.json", "events.parquet"):
            (rank / name).unlink(missing_ok=True)


@pytest.mark.parametrize(
    "words",
    [[command] for command in COMPARING]
    + [
        ["sql", "select rank, count(*) from events group by 1"],
        ["report", "--output", "page.html"],
        ["export", "--output", "timeline.json"],
    ],
)
def test_a_damaged_rank_is_left_out_of_what_is_asked_of_all_together(
    command_line, job, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    damage(job / "rank=00001")
    command, *more = words
    outcome = command_line(command, job, *more)
    assert outcome.code == 0
    said = " ".join(outcome.err.split())
    assert said.count("rank 1 is excluded: ") >= 1
    assert "rank=00001/events.parquet is damaged" in said
    if command in COMPARING:
        chosen = command_line(command, job, "--rank", "0,2-3")
        assert chosen.out == outcome.out and "excluded" not in chosen.err
    elif command == "sql":
        assert sorted(row["rank"] for row in rows_of(outcome.out)) == ["", "0", "2", "3"]


def test_where_too_few_can_be_read_the_first_that_cannot_is_named(command_line, job):
    damage(*sorted(job.iterdir()))
    assert "rank=00000/events.parquet is damaged" in command_line("ranks", job).complaint


def test_a_copy_is_of_all_or_none(command_line, job, tmp_path):
    damage(job / "rank=00001")
    complaint = command_line("export", job, "--output", tmp_path / "copy.opscope").complaint
    assert "Or choose the other ranks: --rank 0,2-3" in complaint
    assert not (tmp_path / "copy.opscope").exists()


@pytest.mark.parametrize("command", ["why --all", "memory", "why"])
def test_a_damaged_rank_is_left_out_where_each_has_an_answer_of_its_own(command_line, job, command):
    damage(job / "rank=00001")
    outcome = command_line(command, job, "--format", "json")
    assert outcome.code == 0
    answered = {one.get("rank") for one in json.loads(outcome.out)["processes"]}
    assert answered >= {0, 2, 3} and 1 not in answered
    said = " ".join(outcome.err.split())
    assert "rank 1 is excluded: " in said and "rank=00001/events.parquet is damaged" in said
    damage(*job.iterdir())
    assert "events.parquet is damaged" in command_line(command, job).complaint
