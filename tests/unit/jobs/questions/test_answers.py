"""Questions about jobs: every engine gives the answers that are known."""

import json
from pathlib import Path

import pytest

from opscope.api.job import Job
from opscope.columns.schema import EventKind
from opscope.errors import MissingDependencyError, TraceFormatError, UsageError
from opscope.jobs.questions import engines
from opscope.jobs.questions.questions import JobQuestion
from opscope.storage.manifest import ROLLUP
from support.build_trace import allocation, build_trace, span
from support.spark import why_no_spark

pytest.importorskip("ibis", reason="ibis is not installed")

NO_SPARK = why_no_spark()
SPARK = pytest.param("spark", marks=pytest.mark.skipif(bool(NO_SPARK), reason=NO_SPARK))
ENGINES = ["duckdb", SPARK]
KNOWN = Path(__file__).with_name("answers.json")

FUNCTION = ("train.py", 3, "train")
ODD = "job [1] *?{a,b}^ %20 'é'"
"""What engines take for patterns, and for what they decode."""


def rank_trace(rank):
    """Ranks differ, and those after the first two have what is equal, so that order is tested."""
    work = {0: 40, 1: 70}.get(rank, 50)
    spans = []
    for number in range(4 if rank != 3 else 2):
        at = number * 200
        spans += [
            span(f"ProfilerStep#{number}", at, at + 200),
            span("train", at + 1, at + 199, kind=EventKind.PYTHON_CALL, frame=FUNCTION),
            span("nn.Module: Net_0", at + 2, at + 100, kind=EventKind.MODULE_CALL, module="Net_0",
                 caller=FUNCTION, line=5),
            span("aten::mm", at + 3, at + 3 + work + number, caller=FUNCTION, line=6),
            span("c10d::allreduce_", at + 120, at + 190 - work // 2, caller=FUNCTION, line=8),
        ]  # fmt: skip
        if rank == 4:
            spans.append(span("aten::only's", at + 195, at + 196))
    return build_trace(
        spans,
        allocations=[allocation(4, 100 * (1 + rank % 3)), allocation(5, 7)],
        ledger={
            "events": {"recorded": 20, "dropped: no room": rank % 3, "dropped: late": 0},
            "newer opscope": {"shown as unknown: events of kind 77": float(rank == 4)},
        },
    )


@pytest.fixture(scope="module")
def traces():
    return {rank: rank_trace(rank) for rank in range(5)}


@pytest.fixture(scope="module")
def folder(traces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs") / ODD
    for rank, trace in traces.items():
        trace.save(folder, rank=rank)
    return folder


@pytest.mark.parametrize("question", JobQuestion)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_answers_what_is_known(folder, engine, question):
    """Answers that agreed with plain Python over the same rollups lie beside this file."""
    answer = Job(folder).query(question, engine=engine)
    expected = json.loads(KNOWN.read_text())[question.value]
    assert [list(row) for row in answer.rows] == expected
    kinds = [type(value) for value in expected[0]]
    assert [[type(value) for value in row] for row in answer.rows] == [kinds] * len(expected)
    assert answer.processes == 5 and len(answer) == len(expected)
    assert [part.number for part in answer.incomplete] == [1, 2, 4]


def test_nothing_recorded_of_it_gives_no_rows(tmp_path):
    for rank in range(2):
        build_trace([span("aten::mm", 0, 5)]).save(tmp_path, rank=rank)
    job = Job(tmp_path)
    for question in ("ranks", "steps", "lines", "memory", "losses"):
        assert job.query(question).rows == ()
    assert job.query("operators").rows == (("aten::mm", "cpu", 2, 2, 10_000, 5_000, 0, 5_000, 0),)


def test_without_rollups_they_are_made_for_it(traces, tmp_path):
    for rank, trace in traces.items():
        part = trace.save(tmp_path, rank=rank)
        if rank % 2:
            (part / ROLLUP).unlink()
    found = Job(tmp_path).query("operators")
    assert found.rows[0][2] == 5
    assert all((part / ROLLUP).exists() for part in tmp_path.iterdir())


def test_processes_without_a_rank_are_asked_where_there_is_none(traces, tmp_path):
    for number in (20_000, 20_001):
        traces[number % 2].save(tmp_path, process=number)
    answer = Job(tmp_path).query("ranks")
    assert answer.columns[0] == "process" and [row[0] for row in answer.rows] == [20_001, 20_000]
    assert Job(tmp_path).query("operators").columns[2:8:2] == (
        "processes",
        "self_ns",
        "least_process",
    )
    traces[3].save(tmp_path, rank=3)
    assert [row[0] for row in Job(tmp_path).query("ranks").rows] == [3]


def test_what_makes_no_sense_is_reported(folder):
    job = Job(folder)
    with pytest.raises(UsageError, match=r"no question 'who'\. Choose one of: ranks, steps"):
        job.query("who")
    with pytest.raises(UsageError, match=r"no engine 'sqlite'\. Choose one of: duckdb, spark"):
        job.query("ranks", engine="sqlite")
    with pytest.raises(UsageError, match="--master is for Spark"):
        job.query("ranks", master="local")


def test_without_ibis_spark_or_java_it_is_reported_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ibis", None)
    with pytest.raises(MissingDependencyError, match=r"opscope\[job\]"):
        Job(folder).query("ranks")
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    with pytest.raises(MissingDependencyError, match=r"opscope\[spark\]"):
        Job(folder).query("ranks", engine="spark")
    monkeypatch.undo()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingDependencyError, match="needs Java"):
        engines._check_java()


@pytest.mark.skipif(bool(NO_SPARK), reason=NO_SPARK)
def test_a_spark_that_does_not_start_is_reported(folder, monkeypatch):
    from pyspark.sql import SparkSession

    asked = []

    class Refuses:
        def master(self, url):
            asked.append(url)
            return self

        def config(self, *_):
            return self

        def getOrCreate(self):
            raise RuntimeError("Connection refused.\n  at org.apache")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "builder", Refuses())
    with pytest.raises(UsageError, match=r"with master spark://head:7077: Connection refused\. "):
        Job(folder).query("ranks", engine="spark", master="spark://head:7077")
    monkeypatch.setenv("OPSCOPE_SPARK_MASTER", "spark://other:7077")
    for _ in range(2):
        with pytest.raises(UsageError, match="Spark does not start"):
            Job(folder).query("ranks", engine="spark")
        monkeypatch.delenv("OPSCOPE_SPARK_MASTER", raising=False)
    assert asked == ["spark://head:7077", "spark://other:7077", "local[*]"]


def test_damage_that_shows_while_it_is_read_is_an_error_of_ours(traces, tmp_path):
    part = traces[0].save(tmp_path, rank=0)
    traces[1].save(tmp_path, rank=1)
    file = part / "rollup_steps.parquet"
    file.write_bytes(b"PAR1" + b"\xff" * (file.stat().st_size - 4))
    with pytest.raises(TraceFormatError, match="opscope ranks --rollup --again"):
        Job(tmp_path).query("ranks")


def test_an_answer_can_be_looked_at(folder):
    answer = Job(folder).query("ranks")
    assert repr(answer).startswith("<JobAnswer: ranks of 5 processes\n  rank 1, steps 4, ")
    assert "median_own_ns" in answer._repr_html_()
    assert answer.as_dicts()[0]["rank"] == 1
    assert list(answer.to_pandas()["rank"]) == [row[0] for row in answer.rows]
