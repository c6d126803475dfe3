"""``opscope summary --compiled`` prints lines with their time, and what torch.compile did."""

import csv
import io
import json

import pytest
from tests.support.build_trace import ORIGIN_NS, build_trace, span

import opscope
from opscope.columns.codes import CompilationKind, EventKind, OriginsKnownFrom


@pytest.fixture
def compiled_trace():
    """One graph: a kernel of lines 7 and 8, an operator of line 9, and one that is of none."""
    trace = build_trace(
        [
            span("Compiled graph 0_forward", 0, 100, kind=EventKind.COMPILED_GRAPH,
                 frame=("gen.py", 1, "call")),
            span("cpp_fused_add_relu_0", 10, 50),
            span("aten::mm", 60, 80),
            span("aten::randint", 82, 86),
        ],
        metadata={"options": {"compiled": True}, "start_ns": ORIGIN_NS},
    )  # fmt: skip
    return with_places(trace)


def with_places(trace):
    rows = {text: row for row, text in enumerate(trace.names)}

    def name(text):
        return rows.setdefault(text, len(rows))

    sites = {
        "file": [name("gen.py")] * 2,
        "line": [5, 6],
        "graph": [name("0_forward")] * 2,
        "callee": [name("cpp_fused_add_relu_0"), name("extern_kernels.mm")],
        "is_cpp": [True, False],
        "known_from": [OriginsKnownFrom.GENERATION] * 2,
    }
    origins = {
        "site": [0, 0, 1],
        "node": [-1, -1, -1],
        "operator": [name("aten.add"), name("aten.relu"), name("aten.mm")],
        "file": [name("model.py")] * 3,
        "line": [7, 8, 9],
        "function": [name("forward")] * 3,
        "module": [name("block")] * 3,
    }
    compilations = {
        "kind": [CompilationKind.GRAPH_BREAK, CompilationKind.RECOMPILATION],
        "start_ns": [ORIGIN_NS] * 2,
        "duration_ns": [0, 2_000_000],
        "compile_id": [-1, -1],
        "function": [name("forward")] * 2,
        "file": [name("model.py")] * 2,
        "line": [12, 1],
        "reason": [name("why it was")] * 2,
        "from_cache": [False] * 2,
    }
    tables = {
        **{name: trace.table(name) for name in ("events", "threads", "python_calls", "frames")},
        "operator_calls": {"event": [1, 2, 3], "caller": [0, 0, 0], "caller_line": [5, 6, 7]},
        "compiled_sites": sites,
        "compiled_origins": origins,
        "compilations": compilations,
    }
    return type(trace)(tables, type(trace.names).from_strings(list(rows)), trace.metadata)


@pytest.fixture
def folder(compiled_trace, tmp_path):
    return compiled_trace.save(tmp_path / "compiled.opscope").parent


def test_every_call_has_its_lines_which_share_its_time(compiled_trace):
    found = compiled_trace.compiled("all")
    assert [(call.callee, call.time_ns, len(call.lines)) for call in found.calls] == [
        ("cpp_fused_add_relu_0", 40_000, 2),
        ("extern_kernels.mm", 20_000, 1),
        ("aten::randint", 4_000, 0),
    ]
    assert (found.graphs_ns, found.own_ns) == (100_000, 36_000)
    assert found.coverage == pytest.approx(60 / 64)
    assert [call.prepared_ns for call in found.calls] == [10_000, 10_000, 16_000]
    assert found.coverage_of_graphs == pytest.approx(0.8)
    lines = {one.line.line: one.time_ns for one in found.lines}
    assert lines == {7: 20_000, 8: 20_000, 9: 20_000}


def test_a_table(command_line, folder):
    done = command_line("summary --compiled", folder, "--period", "all")
    assert done.code == 0, done.err
    assert "model.py:7" in done.out
    assert "block" in done.out
    assert "94% has a line, of all of it 80%" in done.err
    assert "no source line for aten::randint: 4.00 µs" in done.err
    assert "the graph breaks at model.py:12 in forward: why it was" in done.err
    assert "compiled again at model.py:1 in forward: why it was" in done.err
    assert "torch.compile took 2.00 ms of the recording" in done.err


def test_every_format_has_every_kernel(command_line, folder):
    def printed(format):
        command = ("summary --compiled", folder, "--period", "all", "--format", format)
        return command_line(*command).out

    content = json.loads(printed("json"))
    assert content["coverage"] == pytest.approx(60 / 64)
    assert [line["line"] for line in content["calls"][0]["lines"]] == [7, 8]
    assert [one["kind"] for one in content["compilations"]] == ["graph_break", "recompilation"]
    assert printed("md").startswith("| Line |")
    rows = list(csv.DictReader(io.StringIO(printed("csv"))))
    found = opscope.load(folder).compiled(period="all")
    assert [int(row["time_ns"]) for row in rows] == [line.time_ns for line in found.lines]
    assert [int(row["line"]) for row in rows] == [one.line.line for one in found.lines]
    assert [row["kernels"].split() for row in rows] == [list(one.kernels) for one in found.lines]


@pytest.fixture
def job(compiled_trace, tmp_path):
    """Three ranks with the same graph, one that ran none, and one that could not have seen any."""
    for rank in range(3):
        compiled_trace.save(tmp_path / "job", rank=rank)
    eager = build_trace(
        [span("aten::mm", 0, 100)], metadata={"options": {"compiled": True}, "start_ns": ORIGIN_NS}
    )
    eager.save(tmp_path / "job", rank=3)
    build_trace([span("aten::mm", 0, 100)]).save(tmp_path / "job", rank=4)
    return tmp_path / "job"


def test_of_a_job_all_are_shown_and_which_differs(command_line, job):
    done = command_line("summary --compiled", job, "--period", "all")
    assert done.code == 0, done.err
    rows = [[c.strip() for c in line.split("  ") if c.strip()] for line in done.out.splitlines()]
    assert rows[1] == ["rank 0", "model.py:7 20%", "100 µs", "100%", "80%", "1", "1", "2.00 ms"]
    assert rows[4] == ["rank 3", "--", "0 ns", "0.0%", "--", "0", "0", "0 ns"]
    assert ["time in compiled code: 0.0% in rank 3, 100% in the median of 4."] in rows
    assert ["Compiled code ran in ranks 0-2, and not in rank 3."] in rows
    assert "rank 4" not in done.out
    assert "rank 3: no code from torch.compile ran in this period" in done.err
    assert "rank 4: This trace has no data about compiled code" in done.err
