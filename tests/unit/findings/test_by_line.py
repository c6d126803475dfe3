"""Findings that rest on lines of the program, on pictures of timelines."""

from __future__ import annotations

import pytest

from opscope.columns.ledger import KIND_COST, RECORDED_FOR, CostKind
from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from support.build_trace import build_trace, span
from support.looping_program import CALLER, PYTHON, found, program

LIBRARY = ("/lib/python3.11/json/__init__.py", 299, "loads")


def outside(share):
    """A library's function that takes so much of a millisecond."""
    return program(
        span("loads", 100, 100 + 1_000 * share, frame=LIBRARY, caller=CALLER, line=7, **PYTHON),
        span("aten::mm", 950, 995, caller=CALLER, line=8),
        end=1_000,
    )


def test_time_in_another_library_is_at_the_line_that_calls_it():
    finding = found(build_trace(outside(0.6)), "time-outside-torch")
    assert finding.places[0].line == 7
    assert "loads" in finding.explanation
    assert finding.saved_ns >= 600_000


@pytest.mark.parametrize(("name", "is_own"), [("split", True), ("aten::neg", False)])
def test_python_around_calls_is_the_programs_own_but_where_torch_is_called(name, is_own):
    """Without what recording cost: else the time between calls is the recorder's."""
    kind = {"kind": EventKind.C_CALL} if is_own else {}
    calls = [
        span(name, 1 + i, 1.6 + i, caller=CALLER, line=7, **kind)  # a microsecond for each
        for i in range(400)
    ]
    mm = span("aten::mm", 410, 700, caller=CALLER, line=8)
    recorder = {"recorder": {f"{KIND_COST}{CostKind.OPERATOR.value}": 0.001}}
    trace = build_trace(program(*calls, mm, end=700), ledger=recorder)
    finding = found(trace, "time-outside-torch")
    assert (finding is not None and finding.saved_ns > 380_000) == is_own


@pytest.mark.parametrize("kind", ["_MultiProcessing", "_SingleProcess"])
def test_waiting_for_workers_is_no_time_in_another_library(kind):
    name = f"enumerate(DataLoader)#{kind}DataLoaderIter.__next__"
    trace = build_trace(program(
        span(name, 5, 710, kind=EventKind.ANNOTATION),
        span("poll", 10, 700, frame=LIBRARY, caller=CALLER, line=7, **PYTHON),
        span("aten::mm", 715, 755, caller=CALLER, line=8),
        end=760,
    ))  # fmt: skip
    # What is loaded in the process itself may well be computed there.
    assert (found(trace, "time-outside-torch") is None) == (kind == "_MultiProcessing")


def test_unexplained_time_is_divided_by_owner():
    trace = build_trace(program(span("aten::mm", 20, 980, caller=CALLER, line=8), end=1_000))
    left = find_findings(trace).unexplained
    assert left.share == 1
    assert dict(left.parts) == {"torch's operators": 960_000, "the program's Python": 40_000}
    assert (left.places[0].file, left.places[0].line) == ("train.py", 8)


def test_a_recording_of_part_of_the_time_says_that_it_is_of_that():
    rows = {f"{RECORDED_FOR}operators": 0.25, f"{RECORDED_FOR}steps": 1.0}
    findings = find_findings(build_trace("aten::mm 0..100", ledger={"governor": rows}))
    said = "operators for 25% of the time only"
    assert findings.sampled == findings.as_dict()["sampled"] == said
    assert any(said in note for note in findings.notes)
    assert find_findings(build_trace("aten::mm 0..100")).sampled == ""


def c_call(name, start, end, thread="main", line=7):
    return span(name, start, end, thread, kind=EventKind.C_CALL, caller=CALLER, line=line)


def test_a_sleeping_main_thread_gets_other_advice_than_an_event_loop():
    def shares(name):
        spans = [
            span("train", 0, 1000, frame=CALLER, **PYTHON),
            span("aten::mm", 10, 100, caller=CALLER, line=5),
            c_call(name, 100, 900),
            span("aten::mm", 900, 990, caller=CALLER, line=5),
        ]
        trace = build_trace(spans)
        return found(trace, "time-outside-torch"), find_findings(trace).unexplained

    finding, _ = shares("<built-in function sleep>")
    assert finding.places[0].line == 7 and finding.saved_share == pytest.approx(0.8, abs=0.05)
    finding, left = shares("<built-in method poll of select.epoll object at 0x7f>")
    assert finding is None
    assert left.parts[0] == ("idle", 800_000)


@pytest.mark.parametrize("recorded", ["stack", "functions", "own_functions"])
def test_a_call_of_torch_s_python_has_what_it_runs_in_c_where_that_is_not_recorded(recorded):
    backward = ("/lib/site-packages/torch/_tensor.py", 5, "backward")
    spans = [
        span("backward", 0, 900, frame=backward, caller=CALLER, line=5, **PYTHON),
        *(span("aten::mm", at, at + 10) for at in range(0, 900, 300)),
        *([c_call("<built-in function len>", 902, 903)] if recorded == "stack" else []),
    ]
    trace = build_trace(program(*spans, end=910), metadata={"options": {recorded: True}})
    assert (found(trace, "time-outside-torch") is not None) == (recorded == "stack")


@pytest.mark.parametrize("dropped", [0, 10, 11, 900])
def test_where_events_were_dropped_nothing_is_reported_of_time_without_any(dropped):
    ledger = {"events": {"requested": 1_000, "dropped: memory is limited": dropped}}
    findings = find_findings(build_trace(outside(0.6), ledger=ledger))
    is_known = dropped <= 10  # of a thousand
    assert ("time-outside-torch" in [one.id for one in findings]) == is_known
    assert ("time-outside-torch" in [one.id for one in findings.unchecked]) != is_known
    assert findings.dropped_share == dropped / 1_000
    assert any("of the events were dropped" in note for note in findings.notes) != is_known


LOOP = ("train.py", 8, "loop")


def test_what_a_function_calls_of_unknown_lines_is_explained_by_who_takes_it():
    """The function sleeps nearly all of its time, in a call of which only the function is known."""
    spans = [
        span("loop", 0, 1_000, frame=LOOP, **PYTHON),
        *(
            one
            for i in range(5)
            for one in (
                span("aten::mm", 200 * i + 5, 200 * i + 15, caller=LOOP, line=8),
                span("rest", 200 * i + 20, 200 * i + 195, frame=CALLER, caller=LOOP, line=8,
                     **PYTHON),
                span("sleep", 200 * i + 21, 200 * i + 194, kind=EventKind.C_CALL),
            )
        ),
    ]  # fmt: skip
    findings = find_findings(build_trace(spans))
    assert findings["time-outside-torch"].saved_share > 0.8
    left = findings.unexplained
    assert left.share + findings["time-outside-torch"].saved_share <= 1.01
    by_kind = dict(left.parts)
    assert by_kind.get("other libraries", 0) < 0.1 * left.time_ns
    assert by_kind["torch's operators"] == pytest.approx(50_000, rel=0.05)
