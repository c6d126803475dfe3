"""Questions about jobs: every engine gives what plain Python makes of the same rollups."""

import statistics
from collections import defaultdict

import pytest

from opscope.api.job import Job
from opscope.columns.causes import Cause
from opscope.columns.schema import EventKind
from opscope.errors import MissingDependencyError, TraceFormatError, UsageError
from opscope.jobs.questions import engines
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.contents import contents_of
from opscope.jobs.rollup.schema import ROLLUP_TABLES
from opscope.storage.manifest import ROLLUP
from support.build_trace import allocation, build_trace, span
from support.spark import why_no_spark

pytest.importorskip("ibis", reason="ibis is not installed")

NO_SPARK = why_no_spark()
SPARK = pytest.param("spark", marks=pytest.mark.skipif(bool(NO_SPARK), reason=NO_SPARK))
ENGINES = ["duckdb", SPARK]

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


@pytest.fixture(scope="module")
def rows(folder):
    """Rows of all ranks' rollups, table by table."""
    found = defaultdict(list)
    for part, trace in Job(folder).traces():
        for name, table in contents_of(trace, part).tables.items():
            columns = [table[column.name].tolist() for column in ROLLUP_TABLES[name].columns]
            keys = [column.name for column in ROLLUP_TABLES[name].columns]
            found[name] += [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def middle(values):
    return int(statistics.median(values))


def sums(rows, keys, value):
    """``{key: {rank: sum}}``."""
    found = defaultdict(lambda: defaultdict(int))
    for row in rows:
        found[tuple(row[key] for key in keys)][row["rank"]] += row[value]
    return found


def most(by_rank):
    return min(by_rank.items(), key=lambda one: (-one[1], one[0]))


def least(by_rank):
    return min(by_rank.items(), key=lambda one: (one[1], one[0]))


def expected_totals(rows, keys):
    own, calls = sums(rows, keys, "self_ns"), sums(rows, keys, "count")
    found = [
        (*key, len(by), sum(calls[key].values()), sum(by.values()), least(by)[1], least(by)[0],
         most(by)[1], most(by)[0])
        for key, by in own.items()
    ]  # fmt: skip
    return sorted(found, key=lambda row: (-row[len(keys) + 2], row[: len(keys)]))


def expected_steps(rows):
    found = []
    for (number,), by in sorted(sums(rows, ["step"], "own_ns").items()):
        wall = max(row["wall_ns"] for row in rows if row["step"] == number)
        median = middle(by.values())
        found.append(
            (number, len(by), most(by)[0], most(by)[1], median, wall, most(by)[1] - median)
        )
    return found


def expected_ranks(rows):
    slowest = [most(by)[0] for by in sums(rows, ["step"], "own_ns").values()]
    found = []
    for rank in {row["rank"] for row in rows}:
        own, wall = ([r[k] for r in rows if r["rank"] == rank] for k in ("own_ns", "wall_ns"))
        found.append((rank, len(own), middle(own), max(own), middle(wall), slowest.count(rank)))
    return sorted(found, key=lambda row: (-row[2], row[0]))


def expected_spread(tables):
    everything = [
        *({**r, "what": "operator", "where": r["name"]} for r in tables["rollup_operators"]),
        *(
            {**r, "what": "module", "where": f"{r['phase']} of {r['module']}"}
            for r in tables["rollup_operators"]
            if r["module"]
        ),
        *(
            {**r, "what": "line", "where": f"{r['file']}:{r['line']} {r['function']}"}
            for r in tables["rollup_lines"]
        ),
    ]
    found = []
    for key, by in sums(everything, ["what", "where"], "self_ns").items():
        by = {rank: by.get(rank, 0) for rank in range(5)}
        rank, time_ns = most(by)
        found.append((*key, rank, time_ns, middle(by.values()), time_ns - middle(by.values())))
    return sorted(found, key=lambda row: (-row[5], row[:2]))


def expected_causes(rows):
    rows = [row for row in rows if row["period"] == "all"]
    whole = {rank: sum(r["time_ns"] for r in rows if r["rank"] == rank) for rank in range(5)}
    found = []
    for (cause,), by in sums(rows, ["cause"], "time_ns").items():
        by = {rank: by.get(rank, 0) for rank in range(5)}
        median = middle(by.values())
        found += [(r, cause, ns, ns / whole[r], median, ns - median) for r, ns in by.items()]
    return sorted(found, key=lambda row: (-row[5], row[0], row[1]))


def expected_memory(rows):
    found = []
    for row in rows:
        same = [r["bytes"] for r in rows if r["category"] == row["category"]]
        median = middle(same)
        found.append((row["rank"], "cpu", row["category"], row["bytes"], row["time_ns"], median,
                      row["bytes"] - median))  # fmt: skip
    return sorted(found, key=lambda row: (-row[3], row[:3]))


def expected_losses(rows):
    lost = [
        row for row in rows if row["what"].startswith("dropped") or row["source"] == "newer opscope"
    ]
    rows = [row for row in lost if row["value"] > 0]
    found = []
    for key, by in sums(rows, ["source", "what"], "value").items():
        found.append((*key, int(sum(by.values())), len(by), int(most(by)[1]), most(by)[0]))
    return sorted(found, key=lambda row: (-row[2], row[:2]))


EXPECTED = {
    "ranks": lambda t: expected_ranks(t["rollup_steps"]),
    "steps": lambda t: expected_steps(t["rollup_steps"]),
    "operators": lambda t: expected_totals(t["rollup_operators"], ["name", "device"]),
    "modules": lambda t: expected_totals(t["rollup_operators"], ["module", "phase"]),
    "lines": lambda t: expected_totals(t["rollup_lines"], ["file", "line", "function"]),
    "spread": expected_spread,
    "causes": lambda t: expected_causes(t["rollup_causes"]),
    "memory": lambda t: expected_memory(t["rollup_memory"]),
    "losses": lambda t: expected_losses(t["rollup_ledger"]),
}


@pytest.mark.parametrize("question", JobQuestion)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_answers_as_plain_python_does(folder, rows, engine, question):
    answer = Job(folder).query(question, engine=engine)
    expected = EXPECTED[question.value](rows)
    assert expected, "the job has no rows of it"
    assert list(answer.rows) == expected
    kinds = [type(value) for value in expected[0]]
    assert [[type(value) for value in row] for row in answer.rows] == [kinds] * len(expected)
    assert answer.processes == 5 and len(answer) == len(expected)
    assert [part.number for part in answer.incomplete] == [1, 2, 4]


def test_what_the_reference_says_is_what_was_planted(rows):
    (slow, *_), *_ = expected_ranks(rows["rollup_steps"])
    assert slow == 1
    assert expected_spread(rows)[0][:3] == ("line", "train.py:6 train", 1)
    assert expected_losses(rows["rollup_ledger"]) == [
        ("events", "dropped: no room", 4, 3, 2, 2),
        ("newer opscope", "shown as unknown: events of kind 77", 1, 1, 1, 4),
    ]
    assert {row["cause"] for row in rows["rollup_causes"]} >= {Cause.COLLECTIVE.name.lower()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_gives_the_first_rows(folder, engine):
    job = Job(folder)
    whole = job.query("spread", engine=engine)
    assert job.query("spread", engine=engine, limit=3).rows == whole.rows[:3]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_recorded_of_it_gives_no_rows(tmp_path, engine):
    for rank in range(2):
        build_trace([span("aten::mm", 0, 5)]).save(tmp_path, rank=rank)
    job = Job(tmp_path)
    for question in ("ranks", "steps", "lines", "memory", "losses"):
        assert job.query(question, engine=engine).rows == ()
    assert job.query("operators", engine=engine).rows == (
        ("aten::mm", "cpu", 2, 2, 10_000, 5_000, 0, 5_000, 0),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_without_rollups_they_are_made_for_it(traces, tmp_path, engine):
    for rank, trace in traces.items():
        part = trace.save(tmp_path, rank=rank)
        if rank % 2:
            (part / ROLLUP).unlink()
    found = Job(tmp_path).query("operators", engine=engine)
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


def test_some_ranks_can_be_asked(folder):
    answer = Job(folder, [0, 4]).query("ranks")
    assert sorted(row[0] for row in answer.rows) == [0, 4] and answer.processes == 2


def test_a_process_without_events_is_passed_over(traces, tmp_path):
    traces[0].save(tmp_path, rank=0)
    build_trace("").save(tmp_path, rank=1)
    assert Job(tmp_path).query("ranks").processes == 1
    build_trace("").save(tmp_path / "none", rank=0)
    with pytest.raises(TraceFormatError, match="contains no events"):
        Job(tmp_path / "none").query("ranks")


def test_a_folder_of_chrome_traces_is_asked_too(traces, tmp_path):
    for rank in (0, 1):
        traces[rank].export("chrome", tmp_path / f"rank-{rank}.json")
    found = Job(tmp_path).query("ranks")
    assert [row[0] for row in found.rows] == [1, 0]
    alone = Job(tmp_path, [1]).query("operators")
    assert alone.processes == 1 and len(alone)


def test_what_makes_no_sense_is_said(folder):
    job = Job(folder)
    with pytest.raises(UsageError, match=r"no question 'who'\. Choose one of: ranks, steps"):
        job.query("who")
    with pytest.raises(UsageError, match=r"no engine 'sqlite'\. Choose one of: duckdb, spark"):
        job.query("ranks", engine="sqlite")
    with pytest.raises(UsageError, match="--master is for Spark"):
        job.query("ranks", master="local")


def test_without_ibis_spark_or_java_it_is_said_what_to_install(folder, monkeypatch):
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
def test_a_spark_that_does_not_start_is_said(folder, monkeypatch):
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
