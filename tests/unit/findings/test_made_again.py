"""Workers of a DataLoader that are started for every pass over the data."""

from __future__ import annotations

import pytest

from opscope.columns.codes import EventKind
from opscope.findings.patterns.repeated_setup import WORKERS
from opscope.findings.subject import Subject
from support.build_trace import build_trace, span

PYTHON = {"kind": EventKind.PYTHON_CALL}
TRAINING = ("train.py", 1, "train")
LOADER = "/site-packages/torch/utils/data/dataloader.py"
STARTING = (LOADER, 400, "_get_iterator")
ASKING = (LOADER, 700, "__next__")
ENDING = (LOADER, 1500, "_shutdown_workers")
PROCESS = ("/usr/lib/python3.11/multiprocessing/process.py", 110, "start")
FIRST, LATER = 500, 20


def epochs(count, before=()):
    """Passes of two batches; the first of each takes 500 µs, starting 1,000 and ending 300."""
    spans, at = [span("train", 0, 100_000, frame=TRAINING, **PYTHON)], 1_000

    def call(frame, length):
        nonlocal at
        spans.append(
            span(frame[2], at, at + length, frame=frame, caller=TRAINING, line=3, **PYTHON)
        )
        at += length + 10

    for length in before:
        call(ASKING, length)
    for _ in range(count):
        begin = at
        call(STARTING, 1_000)
        spans.append(span("start", begin + 10, begin + 900, frame=PROCESS, **PYTHON))
        call(ASKING, FIRST)
        call(ASKING, LATER)
        call(ENDING, 300)
        spans.append(span("aten::mm", at, at + 100, caller=TRAINING, line=4))
        at += 110
    return Subject(build_trace(spans))


def test_one_start_remains_where_none_was_before():
    evidence = WORKERS.find(epochs(4))
    each = 1_000 + 300 + FIRST
    assert evidence.saved_ns == 3 * (each - LATER) * 1000
    assert "all starts but one" in evidence.saved_by


def test_all_go_where_the_workers_had_been_started_before():
    evidence = WORKERS.find(epochs(4, before=(LATER,)))
    assert evidence.saved_ns == 4 * (1_000 + 300 + FIRST - LATER) * 1000
    assert "all starts," in evidence.saved_by


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_starts_are_no_finding(count):
    assert WORKERS.find(epochs(count)) is None
