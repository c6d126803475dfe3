"""What the page is told: the numbers of the analyses, spans with nothing lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from opscope.columns.schema import EventKind
from opscope.report.page import report_html
from opscope.report.span_section import GPU_KIND
from support.any_spans import ANY_SPANS
from support.build_trace import ORIGIN_NS, allocation, build_trace, kernel, span, tensor
from support.finding import finding
from support.read_report import read_report


def report_of(trace, **options):
    return read_report(report_html(trace, **options))


@pytest.fixture(scope="module")
def training():
    return build_trace(
        [
            span("ProfilerStep#0", 0, 100),
            span("Net_0", 5, 60, kind=EventKind.MODULE_CALL, module="Net_0"),
            span(
                "aten::mm", 10, 30, inputs=[tensor(2, 3), tensor(3, 4)],
                caller=("train.py", 7, "main"), sequence_number=1,
            ),
            span("aten::empty", 11, 12, inputs=[tensor(2, 3), tensor(3, 4)]),
            span("cudaLaunchKernel", 15, 16, kind=EventKind.RUNTIME_CALL),
            span("work", 20, 40, "worker"),
            span("aten::relu", 70, None),
        ],
        allocations=[allocation(11.5, 4096, address=0x1)],
        gpu=[kernel("gemm", 17, 29, launch=4)],
        metadata={"program": "/home/me/train.py", "torch_version": "2.13.0"},
        ledger={
            "events": {"recorded": 7, "dropped: memory budget": 3},
            "recorder": {"cost_ns of one operator": 50.0},
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def report(training):
    return report_of(training)


def test_spans_are_line_by_line_with_kinds_arguments_and_arrows(report):
    spans = report.data["spans"]
    assert [line["name"] for line in spans["lines"]] == ["main", "worker", "stream 7"]
    assert report.spans == [
        ("ProfilerStep#0", 0, 100_000, 0),
        ("Net_0", 5_000, 60_000, 0),
        ("aten::mm", 10_000, 30_000, 0),
        ("aten::empty", 11_000, 12_000, 0),
        ("cudaLaunchKernel", 15_000, 16_000, 0),
        ("aten::relu", 70_000, 100_000, 0),
        ("work", 20_000, 40_000, 1),
        ("gemm", 17_000, 29_000, 2),
    ]
    assert spans["unfinished"] == [5]
    kinds = dict(zip(spans["labels"]["text"], spans["labels"]["kind"], strict=True))
    assert (kinds["Net_0"], kinds["gemm"]) == (EventKind.MODULE_CALL, GPU_KIND)
    texts = spans["inputs"]
    shown = [texts[row - 1] if row else "" for row in report.columns["inputs"].tolist()]
    assert shown == ["", "", "[2, 3], [3, 4]", "[2, 3], [3, 4]", "", "", ""]
    assert report.columns["arrowSource"].tolist() == [4]
    assert report.columns["arrowTarget"].tolist() == [7]


def test_tables_and_what_the_run_says(report):
    data = report.data
    operators = data["operators"]["columns"]
    mm = operators["name"].index("aten::mm")
    assert operators["self"][mm] == 19_000 - 1_000
    assert operators["total"][mm] == 20_000
    assert operators["deviceTotal"][mm] == 12_000
    by_shape = data["operatorsByShape"]["columns"]
    assert by_shape["shapes"][by_shape["name"].index("aten::mm")] == "[2, 3], [3, 4]"
    assert data["modules"]["columns"]["name"] == ["Net_0"]
    assert data["sources"] is None  # modules alone do not make a stack
    assert data["title"] == "train.py"
    run = data["run"]
    assert run["dropped"] == 3
    assert run["costNs"] == pytest.approx(4 * 50.0 * 1.3)  # operators and the annotation
    assert run["startedNs"] == str(ORIGIN_NS)
    assert ["torch", "2.13.0"] in run["machine"]
    assert run["counts"]["events"] == 7


def test_source_lines_tell_the_program_from_libraries():
    def call(start, end, file):
        return span("f", start, end, kind=EventKind.PYTHON_CALL, caller=(file, 7, "main"))

    library = "/usr/lib/python3.11/site-packages/numpy/core.py"
    columns = report_of(build_trace([call(0, 9, "train.py"), call(2, 5, library)])).data["sources"]
    assert columns["columns"]["file"] == ["train.py", library]
    assert columns["columns"]["library"] == [False, True]
    assert columns["columns"]["total"] == [9_000, 3_000]


def test_steps_and_memory(report):
    data = report.data
    assert data["steps"]["number"] == [0]
    assert data["steps"]["duration"] == [100_000]
    causes = data["steps"]["causes"]
    assert "operators" in causes and len(data["steps"]["causeMeanings"]) == len(causes)
    assert [sum(times) for times in data["steps"]["causeTimes"]] == [100_000]
    (memory,) = data["memory"]
    assert memory["peakBytes"] == 4096
    held = {"bytes": 4096, "blocks": 1, "before": 0}
    assert memory["groups"]["operator"] == [{"name": "aten::mm", **held}]
    assert memory["groups"]["module"] == [{"name": "Net_0", **held}]
    assert memory["groups"]["phase"] == [{"name": "forward", **held}]
    assert memory["byPhase"] == {"names": ["forward"], "bytes": [[0, 4096]]}
    assert (memory["byCategory"], memory["groups"]["category"]) == (None, [])
    assert "record_shapes=True" in memory["uncategorised"]
    assert memory["blocks"] == [
        {
            "bytes": 4096, "time": 11_500, "until": -1, "span": 3, "name": "aten::mm",
            "category": "unknown", "module": "Net_0",
        }
    ]  # fmt: skip


def test_findings_point_at_spans_and_say_what_was_not_looked_for(training):
    products = np.flatnonzero(training.events["name"] == training.names.find("aten::mm"))
    findings = finding(events=products, occurrences=len(products), saved_ns=None)
    without = report_of(build_trace([span("aten::mm", 0, 10)])).data["findings"]
    assert without["found"] == []
    assert any("--shapes" in one["needs"] for one in without["unchecked"])
    report = report_of(training, findings=findings)
    (named,) = report.data["findings"]["found"]
    assert named["count"] == len(named["spans"]) == len(products) > 0
    assert {report.spans[row][0] for row in named["spans"]} == {"aten::mm"}
    assert named["saved"] is None


def test_tables_are_cut_at_a_readable_length(monkeypatch):
    monkeypatch.setattr("opscope.report.table_sections.MOST_ROWS", 2)
    trace = build_trace([span(f"op{i}", i * 10, i * 10 + i) for i in range(1, 5)])
    section = report_of(trace).data["operators"]
    assert (section["columns"]["name"], section["rows"], section["allRows"]) == (
        ["op4", "op3"], 2, 4,
    )  # fmt: skip


@settings(deadline=None, max_examples=20)
@given(ANY_SPANS)
def test_no_span_is_lost(spans):
    report = report_of(build_trace(spans))
    origin = spans[0].start if spans else 0
    threads = [line["name"] for line in report.data["spans"]["lines"]]
    found = Counter((name, start, end, threads[line]) for name, start, end, line in report.spans)
    assert found == Counter(
        (s.name, (s.start - origin) * 1000, (s.end - origin) * 1000, s.thread) for s in spans
    )


def test_runs_of_asyncio_tasks_are_distinguished_and_names_that_are_no_work_are_marked():
    wait = "<built-in function sleep>"
    spans = [
        span("ProfilerStep#1", 0, 100, kind=EventKind.ANNOTATION),
        span("work", 10, 40, kind=EventKind.TASK_RUN),
        span(wait, 50, 60, kind=EventKind.C_CALL),
    ]
    data = report_of(build_trace(spans)).data
    labels = data["spans"]["labels"]
    assert labels["kind"][labels["text"].index("work")] == EventKind.TASK_RUN
    assert [labels["text"][row] for row in labels["waiting"]] == [wait]
    assert [labels["text"][row] for row in labels["unranked"]] == ["ProfilerStep#1"]
    columns = data["operators"]["columns"]
    waits = dict(zip(columns["name"], columns["waits"], strict=True))
    assert waits == {"work": False, wait: True}
