"""Waits for workers and for other ranks count as far as these had a CPU."""

from __future__ import annotations

import pytest

from opscope.analysis.account.find import find_account
from opscope.analysis.account.process_waits import process_waits
from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.findings.find import find_findings
from opscope.findings.patterns.gil import computing_beside
from opscope.findings.status import Status
from opscope.findings.subject import Subject
from opscope.findings.verdict import find_verdict
from support.build_trace import build_trace, span
from support.thread_samples import sampled

MAIN, OTHER = 1001, -7
LOAD = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
REDUCE = "c10d::allreduce_"
ROUNDS, WORK_MS, WAIT_MS = 100, 2, 8


def waiting(name, own_ms=0.0, other_ms=None):
    """Rounds of work and of a wait. In each, the thread has no CPU for some time of the wait, and
    another process has none for some time; None: its counters are unknown."""
    spans, rows = [], [(MAIN, 0, 0, 0, 0, WaitsFor.OTHER)]
    for number in range(ROUNDS):
        begin = number * (WORK_MS + WAIT_MS)
        middle, end = begin + WORK_MS, begin + WORK_MS + WAIT_MS
        spans += [span("aten::mm", begin * 1000, middle * 1000)]
        spans += [span(name, middle * 1000, end * 1000)]
        done = number + 1
        rows += [(MAIN, end, done * WORK_MS, done * own_ms, 0, WaitsFor.OTHER)]
        if other_ms is not None:
            rows += [(OTHER, end, done * 4, done * other_ms, 0, WaitsFor.OTHER)]
    if other_ms is not None:
        rows.append((OTHER, 0, 0, 0, 0, WaitsFor.OTHER))
    return sampled(build_trace(spans), *rows)


@pytest.mark.parametrize("name", [LOAD, REDUCE])
@pytest.mark.parametrize(
    ("own_ms", "other_ms", "counted_ms"), [(0, 0, 8), (0, 3, 5), (2, 3, 3), (0, 20, 0), (8, 0, 0)]
)
def test_what_a_wait_counts(name, own_ms, other_ms, counted_ms):
    trace = waiting(name, own_ms, other_ms)
    waits = process_waits(trace)
    assert waits.is_known and len(waits.start_ns) == ROUNDS
    assert waits.counted_ns.sum() / 1e6 == pytest.approx(ROUNDS * counted_ms, rel=0.03, abs=8)
    findings = find_findings(trace, which="all")
    without_cpu = (WAIT_MS - counted_ms) / (WORK_MS + WAIT_MS)
    assert findings.waited_share == pytest.approx(without_cpu, abs=0.02)
    assert findings.wall_ns / 1e6 == pytest.approx(ROUNDS * (WORK_MS + counted_ms), rel=0.03)


def test_workers_without_a_cpu_are_no_reason_to_call_a_program_slow():
    busy, slow = waiting(LOAD, other_ms=9), waiting(LOAD, other_ms=0)
    assert find_verdict(busy, "all").status is Status.HEALTHY
    assert find_verdict(slow, "all").status is Status.DATA_LOADING
    shares = {e.cause: e.share for e in find_account(busy, "all").entries()}
    assert Cause.LOADER not in shares
    assert shares[Cause.DESCHEDULED] == pytest.approx(0.8, abs=0.02)


def test_ranks_without_a_cpu_are_no_communication():
    assert find_verdict(waiting(REDUCE, other_ms=9), "all").status is Status.HEALTHY
    assert find_verdict(waiting(REDUCE, other_ms=0), "all").status is Status.COMMUNICATION
    # What the ranks of a job recorded is compared as it is.
    account = find_account(waiting(REDUCE, other_ms=9), "all")
    assert account.entries()[0].cause is Cause.COLLECTIVE


def test_another_process_is_no_thread_of_this_one():
    beside = computing_beside(Subject(waiting(LOAD, other_ms=0)))
    assert OTHER not in [number for _, number in beside]


@pytest.mark.parametrize(("name", "who"), [(LOAD, "workers"), (REDUCE, "other ranks")])
def test_a_verdict_is_not_sure_about_processes_that_it_knows_nothing_of(name, who):
    unknown = find_verdict(waiting(name), "all")
    assert unknown.status in (Status.DATA_LOADING, Status.COMMUNICATION)
    assert who in str(unknown) and "not sure" in str(unknown)
    assert who not in str(find_verdict(waiting(name, other_ms=0), "all")).partition("\n")[0]
