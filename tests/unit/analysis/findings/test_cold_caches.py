"""What the rest of a program takes less once a fault no longer has the caches in between."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.findings.cold_caches import refilling_ns
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.subject import Subject
from opscope.trace.codes import EventKind
from support.build_trace import allocation, build_trace, span

PROGRAM = ("train.py", 1, "train")
LIBRARY = ("/usr/lib/python3.11/json/__init__.py", 299, "loads")
PYTHON = {"kind": EventKind.PYTHON_CALL}


def refilling_us(spans, *rows, saved=None):
    subject = Subject(build_trace(spans))
    saved = subject.duration_ns[list(rows)].sum() if saved is None else saved * 1000
    return refilling_ns(subject, np.array(rows), int(saved)) / 1000


def rounds(fault, rest, count=3, apart=0):
    """``aten::sort``, the fault, and ``aten::mm``, the rest: even and odd rows."""
    spans, at = [], 0
    for _ in range(count):
        spans.append(span("aten::sort", at, at + fault))
        at += fault + apart
        spans.append(span("aten::mm", at, at + rest))
        at += rest
    return spans


@pytest.mark.parametrize(
    "fault, rest, each",
    [
        (2_000, 60, 15), (2_000, 100, 25), (2_000, 500, 65), (500, 1_000, 50),
        (80, 60, 8), (90_000, 90_000, 175),
    ],
    ids=["short calls", "as many", "a step", "a short fault", "both short", "both long"],
)  # fmt: skip
def test_a_quarter_of_what_follows_at_once_and_a_tenth_of_the_rest_but_of_no_more_than_the_fault(
    fault, rest, each
):
    assert refilling_us(rounds(fault, rest), 0, 2, 4) == pytest.approx(3 * each, abs=0.01)


def test_a_fault_that_is_shorter_than_the_caches_take_to_fill_pushes_nothing_out():
    assert refilling_us(rounds(40, 1_000), 0, 2, 4) == 0


def test_parts_of_a_fault_that_follow_one_another_are_one():
    spans = [span("aten::sort", at, at + 40) for at in range(0, 800, 50)]
    spans.append(span("aten::mm", 800, 2_800))
    assert refilling_us(spans, *range(16)) == pytest.approx(0.1 * 640, abs=0.01)


def test_of_a_fault_that_stays_in_part_as_much_counts_as_goes():
    assert refilling_us(rounds(1_000, 1_000, 1), 0, saved=300) == pytest.approx(30, abs=0.01)


def test_a_short_part_in_between_does_not_end_what_follows_a_long_one():
    spans = [span("aten::sort", 0, 2_000), span("aten::mm", 2_000, 2_300)]
    spans += [span("aten::sort", 2_300, 2_320), span("aten::mm", 2_320, 2_520)]
    assert refilling_us(spans, 0, 2) == pytest.approx(25 + 42, abs=0.01)


@pytest.mark.parametrize(
    "made, freed, fetched", [(0, 0, 0), (400_000, 0, 40), (400_000, 400_000, 0), (4_000_000, 0, 65)]
)
def test_what_a_fault_made_and_left_is_to_be_fetched_without_it(made, freed, fetched):
    memory = [allocation(10, made, address=1), allocation(1_900, -freed, address=1)]
    trace = build_trace(rounds(2_000, 500, 1), allocations=memory)
    found_us = refilling_ns(Subject(trace), np.array([0]), 2_000_000) / 1000
    assert found_us == pytest.approx(65 - fetched, abs=0.01)


def test_of_a_function_what_it_computes_between_its_calls_is_the_fault():
    """1 ms of its own before each step of 500 µs, in one call of the function."""
    spans = [span("train", 0, 6_000, frame=PROGRAM, **PYTHON)]
    for at in (1_000, 2_500, 4_000):
        spans.append(span("aten::mm", at, at + 500, caller=PROGRAM, line=5))
    subject = Subject(build_trace(spans))
    rows = np.array([0])
    assert refilling_ns(subject, rows, 4_500_000) == 0
    # After the last stretch nothing follows.
    assert refilling_ns(subject, rows, 4_500_000, rows) / 1000 == pytest.approx(3 * 65, abs=0.01)


def test_a_finding_about_python_between_calls_saves_the_fetching_as_well():
    spans = [span("train", 0, 60_000, frame=PROGRAM, **PYTHON)]
    for at in range(1_000, 60_000, 3_000):
        spans.append(span("aten::mm", at, at + 2_000, caller=PROGRAM, line=5))
    found = find_findings(build_trace(spans), which="all")["time-outside-torch"]
    assert found.saved_ns == pytest.approx(20 * 1_100_000, rel=1e-2)
    assert "out of the caches" in found.saved_by


def test_without_a_rest_nothing_is_fetched_again():
    assert refilling_us([span("aten::sort", 0, 1_000)], 0) == 0


def test_what_runs_on_another_thread_has_caches_of_its_own():
    spans = [span("aten::sort", 0, 5_000, thread="loader"), *rounds(1_000, 1_000)]
    assert refilling_us(spans, 0) == 0


def parsing(step):
    """JSON read for 1 ms before each step."""
    starts = range(0, 20 * (1_000 + step), 1_000 + step)
    spans = [span("train", 0, 20 * (1_000 + step), frame=PROGRAM, **PYTHON)]
    for at in starts:
        spans.append(span("loads", at, at + 1_000, frame=LIBRARY, caller=PROGRAM, line=4, **PYTHON))
        spans.append(span("aten::mm", at + 1_000, at + 1_000 + step, caller=PROGRAM, line=5))
    return build_trace(spans)


def test_a_finding_whose_fix_takes_work_away_saves_the_fetching_as_well():
    found = find_findings(parsing(step=1_500), which="all")["time-outside-torch"]
    assert found.saved_ns == pytest.approx(20 * 1_100_000, rel=1e-3)
    assert "out of the caches" in found.saved_by


def test_events_by_name_do_not():
    found = find_findings(parsing(step=1_500), which="all", name="aten::mm")
    assert "caches" not in found["name-pattern"].saved_by
