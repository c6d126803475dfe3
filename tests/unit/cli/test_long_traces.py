"""What commands answer of a recording that is long: of a stretch of it, and they say so."""

from __future__ import annotations

import json

import pytest

from opscope.analysis import long_top_operators
from opscope.analysis.long_top_operators import find_long_top_operators
from opscope.analysis.top_operators import find_top_operators
from opscope.base import memory_limit
from opscope.cli import trace_argument, view, why
from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.storage import parquet
from opscope.storage.long_trace import LongTrace
from opscope.timeline import typical_stretch
from opscope.timeline.period import Which, period_of
from support.build_trace import build_trace, span
from support.processes import run_python
from support.repeat_trace import repeat_trace

STEPS = 200
STEP_NS = 1_000_000


@pytest.fixture
def long(tmp_path, monkeypatch):
    """Two hundred steps of a hundred events; more than 5,000 of them are long."""
    one = build_trace(
        [
            *(span("aten::mm", at, at + 9) for at in range(0, 970, 10)),
            span("aten::add", 970, 975),
            span("Optimizer.step#SGD.step", 980, 999, kind=EventKind.ANNOTATION),
            span("aten::mul", 981, 990),
        ]
    )
    repeat_trace(one, STEPS, STEP_NS).save(tmp_path / "long.opscope")
    monkeypatch.setattr(trace_argument, "MOST_EVENTS", 5_000)
    for module in (why, typical_stretch):
        monkeypatch.setattr(module, "SAMPLE_EVENTS", 5_000)
    monkeypatch.setattr(trace_argument.long_trace, "__defaults__", (5_000,))
    monkeypatch.setattr(trace_argument.stretch_of, "__defaults__", (5_000,))
    return tmp_path / "long.opscope"


def test_why_says_of_how_many_steps_it_answers(long, command_line):
    said = command_line("why", long).out
    assert "of 199 steps of the optimizer" in said and "verdict: " in said
    account = json.loads(command_line("why --format json", long).out)
    assert 30_000_000 < account["wall_ns"] < 60_000_000
    assert "of 199 steps" in command_line("why --all", long).out


def test_a_summary_counts_all_calls_and_judges_a_stretch(long, command_line):
    content = json.loads(command_line("summary --format json", long).out)
    calls = {row["name"]: row["calls"] for row in content["rows"]}
    assert calls["aten::mm"] == 97 * STEPS and content["events"] == 100 * STEPS
    assert content["verdict"]["wall_ns"] < 60_000_000 and content["memory"] == []
    outcome = command_line("summary", long)
    assert outcome.out.startswith("verdict: ") and "Recording, 200 ms" in outcome.out
    assert "the table of operators covers the whole recording" in outcome.err


def test_a_summary_that_fits_in_memory_judges_the_same_stretch(long, command_line, monkeypatch):
    of_long = json.loads(command_line("summary --format json", long).out)
    monkeypatch.setattr(trace_argument.long_trace, "__defaults__", (1_000_000,))
    of_all = json.loads(command_line("summary --format json", long).out)
    assert of_all["verdict"] == of_long["verdict"] and of_all["rows"] == of_long["rows"]
    outcome = command_line("summary", long)
    assert "the tables of operators and memory cover the whole recording" in outcome.err
    assert "of 199 steps" in outcome.err


def test_sql_is_of_all(long, command_line):
    assert str(100 * STEPS) in command_line("sql", long, "select count(*) from events").out


def test_perfetto_gets_all(long, command_line, monkeypatch):
    given = []
    monkeypatch.setattr(view, "write_perfetto", lambda trace, file: given.append(len(trace.events)))
    command_line("view --perfetto --no-open", long)  # ends as there is no file to serve
    assert given == [100 * STEPS]


def test_what_does_not_fit_is_refused_with_what_it_takes(long, command_line, monkeypatch):
    monkeypatch.setattr(memory_limit, "memory_left", lambda: 2_000_000)
    complaint = command_line("why --period all", long).complaint
    assert "it needs about 0.0 GB" in complaint and "--period steady" in complaint
    monkeypatch.setattr(memory_limit, "memory_left", lambda: 1 << 40)
    assert command_line("why --period all", long).code == 0


NEEDLESS = (
    *("opscope.jobs.", "opscope.analysis.device_use", "opscope.analysis.roofline"),
    *(
        "opscope.analysis.critical_path",
        "opscope.recording.recovered",
        "opscope.storage.chrome",
    ),
    *("opscope.api.job", "opscope.replay", "opscope.live", "torch"),
)
WHERE_THEY_ARE = {"opscope.jobs.recordings", "opscope.jobs.chrome_files"}


def test_one_process_imports_nothing_of_jobs_and_devices(trace_folder, tmp_path):
    program = (
        "import sys, opscope.cli\n"
        "for name, *rest in [['why'], ['why', '--all'], ['summary'], ['report', '-o', 'p.html'],\n"
        "                    ['sql', 'select 1']]:\n"
        "    try: opscope.cli.main([name, sys.argv[1], *rest])\n"
        "    except SystemExit as end: assert not end.code\n"
        "print('\\n'.join(sys.modules))"
    )
    done = run_python("-c", program, trace_folder, cwd=tmp_path, check=True)
    modules = {*done.stdout.splitlines()} - WHERE_THEY_ARE
    assert "opscope.cli.trace_argument" in modules
    assert not [one for one in modules if one.startswith(NEEDLESS)]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 32)
    monkeypatch.setattr(long_top_operators, "_SLICE_EVENTS", 50)
    spans = [span("whole", 0, 5000)]
    for i in range(150):
        spans.append(span("aten::linear", 10 + 20 * i, 25 + 20 * i))
        spans.append(span("aten::addmm", 12 + 20 * i, 20 + 20 * i))
    trace = build_trace(spans)
    trace.save(tmp_path / "t")
    return trace, LongTrace.at(tmp_path / "t")


def test_a_stretch_of_an_imported_file_may_have_no_times(saved, tmp_path):
    build_trace(
        [span("timed", 0, 10), *(span("untimed", at, at) for at in range(20, 300))],
        metadata={"imported_from": "a.json"},
    ).save(tmp_path / "imported")
    found = find_long_top_operators(
        LongTrace.at(tmp_path / "imported"), sort_by="cpu_time_total", row_limit=-1
    )
    assert [(row["name"], row["calls"], row["cpu_total_ns"]) for row in found.rows] == [
        ("timed", 1, 10_000),
        ("untimed", 280, 0),
    ]


@pytest.mark.parametrize("sort_by", ["self_cpu_time_total", "count"])
def test_rows_are_those_of_the_whole(saved, sort_by):
    trace, long = saved
    whole = find_top_operators(period_of(trace, Which.ALL), sort_by=sort_by, row_limit=-1)
    found = find_long_top_operators(long, sort_by=sort_by, row_limit=-1)
    key = found.sorted_by.key
    assert [row[key] for row in found.rows] == [row[key] for row in whole.rows]
    assert {row["name"]: row for row in found.rows} == {row["name"]: row for row in whole.rows}
    assert found.total_cpu_ns == whole.total_cpu_ns
    assert found.period.wall_ns == whole.period.wall_ns
    found = find_long_top_operators(long, sort_by="count", row_limit=1)
    assert [row["calls"] for row in found.rows] == [150]
    assert found.left_out == 2


def test_what_cannot_be_added_up_is_refused(saved):
    _, long = saved
    with pytest.raises(UsageError, match="--range"):
        find_long_top_operators(long, sort_by="flops", row_limit=5)
    with pytest.raises(UsageError, match="--range"):
        find_long_top_operators(long, sort_by="count", row_limit=5, by_shape=True)
