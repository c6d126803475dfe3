"""What a verdict names first, and places and savings of what it names."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.codes import EventKind, WaitsFor
from opscope.columns.schema import TASK_RUNS, RecordScope
from opscope.columns.table import Table
from opscope.findings.own_places import places_inside
from opscope.findings.patterns.event_loop import EVENT_LOOP
from opscope.findings.patterns.growth import GROWING_CONCATENATION
from opscope.findings.patterns.interpreter import TINY_OPERATORS
from opscope.findings.subject import Subject
from support.build_trace import allocation, build_trace, span, tensor
from support.thread_samples import sampled

PYTHON = {"kind": EventKind.PYTHON_CALL}
MAIN, METRIC = ("train.py", 1, "main"), ("train.py", 30, "auc")


def joins(lengths):
    """Concatenations of lists of so many tensors, each followed by a sort of the result."""
    spans, memory = [], []
    for i, count in enumerate(lengths):
        at, made = i * 1_000, 100 + i
        given = [tensor(8, storage=k + 1, impl=k + 1, allocation_id=k) for k in range(count)]
        spans.append(span("aten::cat", at, at + 100, inputs=[given], caller=MAIN, line=5))
        memory.append(allocation(at + 50, 64, allocation_id=made, event=2 * i))
        of = tensor(8 * count, storage=made, impl=made, allocation_id=made)
        spans.append(span("aten::sort", at + 200, at + 900, inputs=[of], caller=METRIC, line=31))
    return Subject(build_trace(spans, allocations=memory))


def test_what_is_computed_of_a_list_that_grows_goes_with_it():
    evidence = GROWING_CONCATENATION.find(joins(range(2, 22)))
    assert evidence.saved_ns == 20 * 800_000 * 19 // 20


@pytest.mark.parametrize("lengths", [[4] * 20, [2, 9] * 10, range(2, 6)])
def test_lists_that_do_not_grow_are_no_finding(lengths):
    assert GROWING_CONCATENATION.find(joins(lengths)) is None


@pytest.mark.parametrize("batch", [1, 8])
def test_layers_of_one_sample_save_all_but_computing(batch):
    given = [tensor(batch, 4)]
    spans = [span("aten::linear", 10 * i, 10 * i + 3, inputs=given) for i in range(200)]
    subject = Subject(build_trace(spans))
    evidence = TINY_OPERATORS.find(subject)
    half = evidence.event_time_ns.sum() // 2
    assert evidence.saved_ns == half if batch > 1 else evidence.saved_ns > 0.9 * subject.wall_ns


def test_the_line_that_takes_most_of_loading_is_named():
    item, decode = ("data.py", 10, "__getitem__"), ("/lib/site-packages/jpeg.py", 1, "decode")
    spans = [
        span("enumerate(DataLoader)", 0, 950, kind=EventKind.ANNOTATION),
        span("__getitem__", 0, 900, frame=item, **PYTHON),
        span("decode", 0, 300, frame=decode, caller=item, line=11, **PYTHON),
        span("decode", 300, 800, frame=decode, caller=item, line=12, **PYTHON),
    ]
    assert places_inside(Subject(build_trace(spans)), np.array([0]))[0].line == 12


def test_what_a_backward_function_of_the_program_calls_is_at_its_line():
    own, step = ("ops.py", 10, "backward"), {"scope": RecordScope.BACKWARD_FUNCTION}
    spans = [
        span("main", 0, 1_000, frame=MAIN, **PYTHON),
        span("MyOp", 10, 20, sequence_number=5, caller=MAIN, line=3),
        span("MyOpBackward", 100, 300, sequence_number=5, forward_thread=1, **step),
        span("backward", 110, 290, frame=own, **PYTHON),
        span("aten::mul", 120, 130, caller=own, line=12),
    ]
    subject = Subject(build_trace(spans))
    assert subject.sites.at[1].tolist()[-1] == 12


@pytest.mark.parametrize(("delayed_ms", "is_blocked"), [(5, True), (15, False)])
def test_a_task_blocks_by_the_time_in_which_its_thread_had_a_processor(delayed_ms, is_blocked):
    """The loop's thread is another one than that of the operators."""
    runs = [(0, 1_000, 0), (1_000, 21_000, 1), (21_000, 22_000, 0), (22_000, 23_000, 1)]
    spans = [span("task", *run[:2], "loop", kind=EventKind.TASK_RUN) for run in runs]
    spans += [span("aten::mm", 100 * i, 100 * i + 50) for i in range(1, 200)]
    trace = build_trace(sorted(spans, key=lambda one: one.start))
    events = np.flatnonzero(trace.events["kind"] == EventKind.TASK_RUN)
    tasks = {"event": events, "task": [run[2] for run in runs], "waited_ns": [0] * 4}
    trace = trace.with_tables({"task_runs": Table(TASK_RUNS, tasks)})
    loop = int(trace.table("threads")["system_thread_id"][trace.events["thread"][events[0]]])
    rows = (
        (0, 0, 0),
        (2, 2, 0),
        (20, 20 - delayed_ms, delayed_ms),
        (23, 23 - delayed_ms, delayed_ms),
    )
    subject = Subject(sampled(trace, *((loop, *row, 0, WaitsFor.NOTHING) for row in rows)))
    evidence = EVENT_LOOP.find(subject)
    assert (evidence is not None) == is_blocked
    assert not is_blocked or evidence.event_time_ns.tolist() == [15_000_000]


@pytest.mark.parametrize(("third", "is_blocked"), [([], False), ([(500, 600, 2)], True)])
def test_a_task_that_waits_for_the_result_is_not_blocked(third, is_blocked):
    """The main task begins after a pause, and gives its work to another task."""
    turns = [(0, 100, 1), (5_000, 5_100, 0), (5_150, 25_150, 1), (25_200, 25_300, 0)]
    later = [(30_000, 30_100, number) for number in range(2 + len(third))]
    runs = sorted([*turns, *third, *later])
    spans = [span("task", *run[:2], "loop", kind=EventKind.TASK_RUN) for run in runs]
    tasks = {"event": range(len(runs)), "task": [run[2] for run in runs]}
    tasks["waited_ns"] = [0] * len(runs)
    trace = build_trace(spans).with_tables({"task_runs": Table(TASK_RUNS, tasks)})
    assert (EVENT_LOOP.find(Subject(trace)) is not None) == is_blocked
