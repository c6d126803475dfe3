"""Pages that the kernel handed out during a few calls make no finding."""

from __future__ import annotations

import pytest

from opscope.analysis.findings.find import find_findings
from opscope.trace.codes import WaitsFor
from opscope.trace.schema import THREAD_SAMPLES, EventKind
from opscope.trace.table import Table
from support.build_trace import ORIGIN_NS, build_trace, span

PROGRAM = ("train.py", 1, "train")
COPYING = ("/site-packages/numpy/lib/array.py", 9, "copied")
PYTHON = {"kind": EventKind.PYTHON_CALL}
EACH, COUNT = 1_000, 40
"""Microseconds of a round: a copy of 25, or one that takes as many as are given, and a product."""


def copies(slow, took=12_000, faults=10_000, ledger=None):
    """A program whose calls of a library take longer in the rounds ``slow``, with faults there."""
    spans, at, samples = [], 0, [(0, 0)]
    for number in range(COUNT):
        copy = took if number in slow else 25
        spans.append(span("copied", at, at + copy, frame=COPYING, caller=PROGRAM, line=5, **PYTHON))
        spans.append(span("aten::mm", at + copy, at + copy + EACH, caller=PROGRAM, line=6))
        at += copy + EACH
        samples.append((at, samples[-1][1] + (faults if number in slow else 0)))
    trace = build_trace([span("train", 0, at, frame=PROGRAM, **PYTHON), *spans], ledger=ledger)
    columns = {
        "system_thread_id": [1001] * len(samples),
        "time_ns": [ORIGIN_NS + time * 1000 for time, _ in samples],
        "computed_ns": [time * 1000 for time, _ in samples],
        "delayed_ns": [0] * len(samples),
        "system_ns": [0] * len(samples),
        "faults": [count for _, count in samples],
        "waits_for": [int(WaitsFor.NOTHING)] * len(samples),
    }
    return trace.with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})


def outside(trace):
    findings = find_findings(trace)
    return "time-outside-torch" not in findings.absent


@pytest.mark.parametrize("slow", [{7}, {3, 20, 31}], ids=["one", "three of forty"])
def test_pages_handed_out_during_a_few_calls_are_no_time_outside_torch(slow):
    assert not outside(copies(slow, faults=30_000))


@pytest.mark.parametrize(
    "slow, faults",
    [({7}, 0), ({7}, 200), (set(range(0, COUNT, 5)), 30_000), (set(range(COUNT)), 30_000)],
    ids=["no faults", "few faults", "often", "always"],
)
def test_calls_that_take_long_otherwise_are(slow, faults):
    assert outside(copies(slow, faults=faults))
