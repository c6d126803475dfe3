"""Findings that rest on lines of the program, on pictures of timelines."""

from __future__ import annotations

import pytest

from opscope.analysis.findings.find import find_findings
from opscope.trace.ledger_rows import (
    KIND_COST,
    SAMPLED_OF,
    SAMPLED_OUTERMOST,
    SAMPLED_STEPS,
    CostKind,
)
from opscope.trace.processor_rows import COMPUTED, SOURCE, WAITED
from opscope.trace.schema import EventKind
from support.build_trace import allocation, build_trace, span, tensor
from support.looping_program import CALLER, PYTHON, found, loop, program

LIBRARY = ("/lib/python3.11/json/__init__.py", 299, "loads")


def test_a_loop_over_the_parts_of_a_tensor_is_at_its_line():
    finding = found(build_trace(program(*loop(20, 3), end=300)), "for-loop-indexing")
    assert finding.places[0].line == 5 and finding.places[0].function == "train"
    assert finding.severity == "high"
    assert finding.places[0].occurrences == 20


def loop_over_parts(elements):
    """Of a loop over parts of so many elements, each call 20 µs where others take 1."""
    part = {"storage": 64, "strides": [2, 1]}
    rounds = [
        span("aten::tanh", 205 + 25 * i, 225 + 25 * i, caller=CALLER, line=5,
             inputs=[tensor(elements // 2, 2, storage_offset=elements * i, **part)])
        for i in range(20)
    ]  # fmt: skip
    others = [
        span("aten::view", 2 * i, 2 * i + 1, caller=CALLER, line=7, inputs=[tensor(8, storage=7)])
        for i in range(100)
    ]
    trace = build_trace(program(*others, *rounds, end=700))
    return found(trace, "for-loop-indexing")


def test_what_short_parts_take_beyond_a_call_is_computing_as_far_as_it_can_be():
    """A call takes 4 µs here, two elements no more than 10 ns, and 4,000 what is left of 20."""
    assert loop_over_parts(2).saved_ns == pytest.approx(19 * 25_000, abs=25_000)
    assert loop_over_parts(4_000) is None


@pytest.mark.parametrize(
    "inner",
    [
        loop(9, 3),  # too few rounds
        loop(20, 3, parts=False),  # the same tensor every time
        loop(20, 900),  # mostly computing
    ],
)
def test_other_loops_are_none(inner):
    trace = build_trace(program(*inner, end=30_000))
    assert found(trace, "for-loop-indexing") is None


@pytest.mark.parametrize(("size", "is_found"), [(8, True), (48, False)])
def test_products_of_the_parts_stay_work_whoever_calls_them(size, is_found):
    inner = [
        span("aten::mm", i * 5, i * 5 + 5, caller=CALLER, line=5,
             inputs=[tensor(size, size, storage=64, storage_offset=i * size), tensor(size, size)])
        for i in range(20)
    ]  # fmt: skip
    # A product of 48 by 48 is 221,184 operations: of its 5 µs at least 3.4, at 64 a nanosecond.
    finding = found(build_trace(program(*inner, end=100)), "for-loop-indexing")
    assert (finding is not None) == is_found


def test_of_each_loop_in_a_loop_a_round_stays():
    inner = []
    for i in range(5):
        inner.append(span("aten::exp", 273 * i, 273 * i + 13, caller=CALLER, line=4))
        inner += loop(20, 3, start=273 * i + 13)
    finding = found(build_trace(program(*inner, end=5 * 273)), "for-loop-indexing")
    assert finding.places[0].occurrences == 100
    assert finding.saved_ns == 13_000 * 95


def making(size_bytes):
    inner = loop(20, 3)
    allocations = [
        allocation(13 * i + 11, size_bytes, allocation_id=i, address=1 + i) for i in range(20)
    ]
    trace = build_trace(program(*inner, end=260), allocations=allocations)
    return found(trace, "for-loop-indexing")


def test_a_loop_whose_results_are_large_is_done_some_parts_at_a_time():
    small, large = making(400 << 10), making(4 << 20)
    assert "parts at a time" not in small.explanation
    assert "Take some 4 parts at a time" in large.explanation
    assert "80.0 MiB of results" in large.explanation
    # One round stays of the small ones, five of the large.
    assert small.saved_ns - large.saved_ns == 4 * 12_500


@pytest.mark.parametrize(("parts", "saved"), [(20, 240 + 40), (3, 240)])
def test_putting_the_results_of_a_loop_together_goes_with_it(parts, saved):
    joining = span("aten::cat", 262, 300, caller=CALLER, line=6, inputs=[[tensor(2)] * parts])
    trace = build_trace(program(*loop(20, 3), joining, end=300))
    finding = found(trace, "for-loop-indexing")
    assert finding.saved_ns / 1000 == pytest.approx(saved, abs=15)


@pytest.mark.parametrize(("count", "saved"), [(30, 60), (5, 0)])
def test_freeing_the_results_of_a_loop_goes_with_it_once_its_function_has_returned(count, saved):
    outer = ("train.py", 40, "main")

    def trace(freed):
        memory = [allocation(13 * i % 260, 8, allocation_id=i, address=1 + i) for i in range(freed)]
        memory += [
            allocation(262 + 2 * i, -8, allocation_id=i, address=1 + i) for i in range(freed)
        ]
        inner = program(*loop(20, 3), end=260)
        inner[0] = span("train", 0, 260, frame=CALLER, caller=outer, line=41, **PYTHON)
        calls = [span("main", 0, 600, frame=outer, **PYTHON), *inner]
        calls.append(span("aten::mm", 400, 600, caller=outer, line=42))
        return build_trace(calls, allocations=memory)

    saved_ns = [found(trace(freed), "for-loop-indexing").saved_ns for freed in (0, count)]
    assert (saved_ns[1] - saved_ns[0]) / 1000 == pytest.approx(saved)


def test_a_line_that_takes_all_of_a_generator_is_run_as_often_as_that_makes_something():
    parts = ("train.py", 20, "parts")
    inner = [span("list", 10, 270, kind=EventKind.C_CALL, caller=CALLER, line=6)]
    for i in range(20):
        inner.append(
            span("parts", 10 + 13 * i, 22 + 13 * i, frame=parts, caller=CALLER, line=6, **PYTHON)
        )
        inner.append(
            span("aten::mul", 15 + 13 * i, 18 + 13 * i, caller=parts, line=21,
                 inputs=[tensor(2, storage=64, storage_offset=2 * i)])
        )  # fmt: skip
    inner.append(span("aten::stack", 272, 280, caller=CALLER, line=6, inputs=[[tensor(2)] * 20]))
    finding = found(build_trace(program(*inner, end=300)), "for-loop-indexing")
    assert finding.places[0].line == 6 and "20 rounds" in finding.explanation


def test_a_loop_around_one_over_parts_is_none_itself():
    """What else its rounds call, such as a network, stays."""
    rows = ("train.py", 20, "by_row")
    inner = []
    for i in range(12):
        at = 400 * i
        inner.append(span("by_row", at, at + 260, frame=rows, caller=CALLER, line=5, **PYTHON))
        inner += [
            span("aten::mul", at + 13 * j, at + 13 * j + 3, caller=rows, line=21,
                 inputs=[tensor(2, storage=64, storage_offset=40 * i + 2 * j)])
            for j in range(20)
        ]  # fmt: skip
        inner.append(span("aten::relu", at + 300, at + 305, caller=CALLER, line=6))
    finding = found(build_trace(program(*inner, end=4_800)), "for-loop-indexing")
    assert [place.line for place in finding.places] == [21]
    assert finding.saved_ns <= 12 * 260_000


def in_rows(width, row_stride):
    """What is left of a loop over matrices of 1,200 elements in rows of this width."""
    rows = 1_200 // width
    part = {"strides": [row_stride, 1], "storage": 64}
    inner = [
        span("aten::maximum", 10 * i, 10 * i + 5, caller=CALLER, line=5,
             inputs=[tensor(rows, width, storage_offset=1_200 * i, **part)])
        for i in range(20)
    ]  # fmt: skip
    return 200_000 - found(build_trace(program(*inner, end=200)), "for-loop-indexing").saved_ns


def test_rows_of_few_elements_take_time_where_they_lie_apart():
    together, apart, wide = in_rows(2, 2), in_rows(2, 4), in_rows(60, 120)
    assert together == wide
    # 600 rows of 1.5 ns each in 19 of 20 rounds, one of which stays.
    assert apart - together == pytest.approx(19 * 900, rel=0.01)


def carried(name):
    """A loop in which each round gets what the one before made, by operators of this name."""
    inner, allocations = [], []
    for i in range(40):
        state = tensor(2, storage=100 + i, allocation_id=i, impl=1 + i)
        part = tensor(2, storage=64, storage_offset=2 * i)
        inner.append(span(name, 10 * i, 10 * i + 5, caller=CALLER, line=5, inputs=[state, part]))
        allocations.append(allocation(10 * i + 1, 8, allocation_id=i + 1, address=101 + i))
    return build_trace(program(*inner, end=400), allocations=allocations)


def test_what_needs_the_round_before_saves_half_unless_it_is_linear():
    nonlinear = found(carried("aten::atan2"), "for-loop-indexing")
    assert nonlinear.saved_share == pytest.approx(0.5, abs=0.05)
    assert "each round needs the one before" in nonlinear.saved_by
    assert found(carried("aten::sub"), "for-loop-indexing").saved_share > 0.85


def test_what_a_looping_function_does_between_its_lines_goes_with_the_loop():
    inner = loop(20, 3)
    pause = span("gc: generation 0", 270, 290, kind=EventKind.GC_PAUSE, parent=-1)
    finding = found(build_trace(program(*inner, pause, end=300)), "for-loop-indexing")
    assert finding.saved_share > 0.9


@pytest.mark.parametrize(
    ("name", "other", "takes", "stays"),
    [
        ("add_", [tensor(2)], 1, 0.65), ("mul_", [0.5], 1, 0.9), ("norm", [2], 1, 1.15),
        ("add_", [tensor(2)], 5, 5 - 0.35 * 1.5), ("mul_", [0.5], 5, 5 - 0.1 * 1.5),
    ],
)  # fmt: skip
def test_a_loop_over_many_tensors_leaves_what_lists_go_through_too(name, other, takes, stays):
    inner = [
        span(f"aten::{name}", 10 * i, 10 * i + takes, caller=CALLER, line=5,
             inputs=[tensor(2, storage=64 + i), *other])
        for i in range(20)
    ]  # fmt: skip
    finding = found(build_trace(program(*inner, end=200)), "tensor-by-tensor")
    assert finding.saved_ns == pytest.approx((190 + takes - 20 * stays) * 1000)


@pytest.mark.parametrize(("operator", "is_said"), [("aten::stack", False), ("aten::empty", True)])
def test_what_a_function_of_torch_takes_to_call_its_own_operator_is_not_outside(operator, is_said):
    name = "<built-in method stack of type object at 0x7f>"
    inner = [
        span(name, 10, 500, kind=EventKind.C_CALL, caller=CALLER, line=5),
        span(operator, 490, 495),
    ]
    finding = found(build_trace(program(*inner, end=505)), "time-outside-torch")
    assert (finding is not None) == is_said


def test_a_loop_of_training_steps_is_none():
    inner = [
        one
        for i in range(20)
        for one in (
            *loop(1, 3, start=i * 50),
            span("Optimizer.step#SGD.step", i * 50 + 20, i * 50 + 30,
                 kind=EventKind.OPTIMIZER_CALL, caller=CALLER, line=6),
        )
    ]  # fmt: skip
    for i, one in enumerate(inner[::2]):
        one.inputs[0]["storage_offset"] = i
    assert found(build_trace(program(*inner, end=1_000)), "for-loop-indexing") is None


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


@pytest.mark.parametrize("share", [0.6, 0.1])
def test_it_is_said_where_lines_are_told_from_the_calls_around(share):
    """Of the program's Python between calls no line is recorded: here a third of the time."""
    calls = [
        span("loads", 0, 1_000 * share, frame=LIBRARY, caller=CALLER, line=7, **PYTHON),
        span("aten::mm", 1_000 * share, 995, caller=CALLER, line=8),
    ]
    quiet = found(build_trace(program(*calls, end=1_000)), "time-outside-torch")
    assert "is told from the calls" not in quiet.explanation
    finding = found(build_trace(program(*calls, end=1_500)), "time-outside-torch")
    assert "is told from the calls" in finding.explanation


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


def test_without_python_calls_nothing_is_said_about_other_libraries():
    findings = find_findings(build_trace([span("aten::mm", 0, 10)]))
    assert "time-outside-torch" in [one.id for one in findings.unchecked]
    assert "time-outside-torch" not in findings.absent


def test_what_no_finding_explains_is_told_by_whose_time_it_is():
    trace = build_trace(program(span("aten::mm", 20, 980, caller=CALLER, line=8), end=1_000))
    left = find_findings(trace).unexplained
    assert left.share == 1
    assert dict(left.parts) == {"torch's operators": 960_000, "the program's Python": 40_000}
    assert (left.places[0].file, left.places[0].line) == ("train.py", 8)


def test_small_operators_come_after_the_loop_that_they_are_in():
    trace = build_trace(program(*loop(600, 3), end=9_000))
    assert [one.id for one in find_findings(trace)][:2] == [
        "for-loop-indexing", "many-small-operators",
    ]  # fmt: skip


def test_a_busy_machine_is_named():
    trace = build_trace("aten::mm 0..100", ledger={SOURCE: {COMPUTED: 1, WAITED: 3}})
    findings = find_findings(trace)
    assert findings.waited_share == 0.75
    assert any("waited for a processor" in note for note in findings.notes)
    quiet = find_findings(build_trace("aten::mm 0..100"))
    assert quiet.waited_share is None
    assert not any("processor" in note for note in quiet.notes)


def test_a_recording_of_some_steps_says_that_it_is_of_those():
    sampled = {SAMPLED_STEPS: 3.0, SAMPLED_OUTERMOST: 5.0, SAMPLED_OF: 12.0}
    findings = find_findings(build_trace("aten::mm 0..100", ledger={"governor": sampled}))
    said = "operators of 3 of 12 steps only, outermost ones alone of 5 more"
    assert findings.sampled == findings.as_dict()["sampled"] == said
    assert any(said in note for note in findings.notes)
    assert find_findings(build_trace("aten::mm 0..100")).sampled == ""


def c_call(name, start, end, thread="main", line=7):
    return span(name, start, end, thread, kind=EventKind.C_CALL, caller=CALLER, line=line)


def test_what_other_threads_wait_for_is_no_time_outside_torch():
    wait = "<built-in method acquire of _thread.lock object at 0x7f>"
    spans = [
        span("train", 0, 1000, frame=CALLER, **PYTHON),
        span("idle", 0, 1000, "other", frame=("train.py", 50, "idle"), **PYTHON),
        c_call(wait, 10, 990, "other"),
        *(span("aten::mm", at, at + 95, caller=CALLER, line=5) for at in range(20, 980, 100)),
    ]
    assert found(build_trace(spans), "time-outside-torch") is None


def test_the_main_thread_that_sleeps_is_told_so_and_a_loop_of_events_is_not():
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
    assert left.parts[0] == ("waiting for what comes next", 800_000)


@pytest.mark.parametrize("are_recorded", [True, False])
def test_what_unrecorded_libraries_do_around_operators_is_not_the_programs(are_recorded):
    each = [span("aten::mm", i * 30 + 4, i * 30 + 30, caller=CALLER, line=5) for i in range(50)]
    options = {"stack": are_recorded, "own_functions": not are_recorded}
    trace = build_trace(program(*each, end=1_510), metadata={"options": options})
    finding = found(trace, "time-outside-torch")
    assert (finding is not None) == are_recorded


@pytest.mark.parametrize("are_recorded", [True, False])
def test_a_call_of_torch_s_python_has_what_it_runs_in_c_where_nothing_else_is_recorded(
    are_recorded,
):
    backward = ("/lib/site-packages/torch/_tensor.py", 5, "backward")
    spans = [
        span("backward", 0, 900, frame=backward, caller=CALLER, line=5, **PYTHON),
        *(span("aten::mm", at, at + 10) for at in range(0, 900, 300)),
    ]
    options = {"stack": are_recorded, "own_functions": not are_recorded}
    trace = build_trace(program(*spans, end=910), metadata={"options": options})
    assert (found(trace, "time-outside-torch") is not None) == are_recorded


@pytest.mark.parametrize("dropped", [0, 10, 11, 900])
def test_where_events_were_dropped_nothing_is_said_of_time_without_any(dropped):
    ledger = {"events": {"requested": 1_000, "dropped: memory is limited": dropped}}
    findings = find_findings(build_trace(outside(0.6), ledger=ledger))
    is_known = dropped <= 10  # of a thousand
    assert ("time-outside-torch" in [one.id for one in findings]) == is_known
    assert ("time-outside-torch" in [one.id for one in findings.unchecked]) != is_known
    assert findings.dropped_share == dropped / 1_000
    assert any("of the events were dropped" in note for note in findings.notes) != is_known


def test_what_was_dropped_of_a_file_that_says_no_more_is_a_share_of_all():
    findings = find_findings(
        build_trace(outside(0.6), ledger={"events": {"dropped: damaged": 900}})
    )
    assert 0.9 < findings.dropped_share < 1


LOOP = ("train.py", 8, "loop")


def test_where_lines_are_those_of_functions_a_loop_is_found_by_its_operators():
    """torch.profiler's files have of a call no line but that its caller begins at."""
    rounds = [
        span(name, 10 * i + place, 10 * i + place + 0.5, caller=LOOP, line=8)
        for i in range(12)
        for place, name in ((1, "aten::select"), (2, "aten::fill_"))
    ]
    finding = found(
        build_trace([span("loop", 0, 130, frame=LOOP, **PYTHON), *rounds]), "for-loop-indexing"
    )
    assert finding.saved_ns == 11 * 10_000
    assert [(place.line, place.function) for place in finding.places] == [(8, "loop")]


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
