"""A line that sleeps is told from one that computes: what to change differs."""

from opscope.columns.codes import WaitsFor
from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from opscope.findings.status import Status
from support.build_trace import build_trace, span
from support.thread_samples import sampled

MS = 1_000
CALL = {"kind": EventKind.PYTHON_CALL}


def found(waits_for, computed_ms):
    spans = [
        span("train", 0, 100 * MS, frame=("train.py", 1, "train"), **CALL),
        span("aten::mm", 1 * MS, 10 * MS),
        span(
            "pause", 10 * MS, 90 * MS,
            frame=("train.py", 9, "pause"), caller=("train.py", 1, "train"), line=3, **CALL,
        ),
        span("aten::mm", 91 * MS, 99 * MS),
    ]  # fmt: skip
    trace = sampled(
        build_trace(spans),
        (1001, 0, 0, 0, 0, WaitsFor.NOTHING),
        (1001, 10, 10, 0, 0, WaitsFor.NOTHING),
        (1001, 50, 10 + computed_ms / 2, 0, 0, waits_for),
        (1001, 90, 10 + computed_ms, 0, 0, waits_for),
        (1001, 100, 20 + computed_ms, 0, 0, WaitsFor.NOTHING),
    )
    findings = find_findings(trace, which="all")
    return next(one for one in findings if one.id == "time-outside-torch")


def test_a_line_that_sleeps_says_so():
    finding = found(WaitsFor.TIMER, computed_ms=0)
    assert "sleeps for 80%" in finding.explanation
    assert "Remove this pause" in finding.advice
    assert finding.status is Status.WAITING
    assert finding.places[0].line == 9


def test_a_line_that_computes_does_not():
    finding = found(WaitsFor.NOTHING, computed_ms=80)
    assert "sleeps" not in finding.explanation
    assert "Remove this pause" not in finding.advice
    assert finding.status is Status.PYTHON
