"""Spans on one line nest, overlapping ones get a line beside it; evaluations are found by name."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opscope import load_trace
from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import EventKind, ScalarType
from opscope.export.chrome.columns import backward_numbers, keyword_fragment
from support.any_spans import ANY_SPANS
from support.build_trace import build_trace, span
from support.chrome_files import document_of, spans_of

PREFIX = "autograd::engine::evaluate_function: "
PARTS = st.sampled_from(
    ["", PREFIX, PREFIX + "MmBackward0", "autograd::engine::", "x", "x" + PREFIX]
)


@given(st.lists(PARTS, max_size=8))
@example(["autograd::engine::", "evaluate_function: x"])
@example(["", "", PREFIX, "", PREFIX])
def test_only_names_that_begin_so_are_evaluations(names):
    # GIVEN an event of each name, each with a child that has a sequence number
    count = len(names)
    nothing = np.full(count, -1)
    events = {
        "name": np.concatenate([np.arange(count), nothing]),
        "parent": np.concatenate([nothing, np.arange(count)]),
        "sequence_number": np.concatenate([nothing, np.arange(count) + 5]),
        "forward_thread": np.concatenate([nothing * 0, np.full(count, 2)]),
    }

    number, thread = backward_numbers(Trace({"events": events}, Names.from_strings(names)))

    expected = [i + 5 if name.startswith(PREFIX) else -1 for i, name in enumerate(names)]
    assert number[:count].tolist() == expected
    assert thread[:count].tolist() == [2 if n >= 0 else 0 for n in expected]
    assert number[count:].tolist() == list(range(5, 5 + count))


STRINGS = '{"GenericList":[{"String":"a"},{"String":"b"}]}'


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        (ScalarType.INT, "42", "42"),
        (ScalarType.FLOAT, "2.5", "2.5"),
        (ScalarType.BOOL, "False", "false"),
        (ScalarType.STRING, "word", '"word"'),
        (ScalarType.STRING, 'with "quotes"', '"None"'),
        (ScalarType.OTHER_LIST, STRINGS, '["a","b"]'),
        (ScalarType.OTHER_LIST, "[]", "[]"),
    ],
)
def test_what_torch_writes(kind, text, written):
    fragment = keyword_fragment("key", kind, text)
    assert fragment is not None
    assert fragment.replace(", ", ",") == f'"key":{written}'


def lines(trace):
    """``{name of a line: names of the spans on it}``."""
    document = document_of(trace)
    names = {
        (row["pid"], row["tid"]): row["args"]["name"]
        for row in document["traceEvents"]
        if row["name"] == "thread_name"
    }
    result = {name: [] for name in names.values()}
    for row in spans_of(document):
        result[names[row["pid"], row["tid"]]].append(row["name"])
    return result


LANE_0, LANE_1 = "thread 1001 (main)", "thread 1001 (main) (overlap 1)"
ANNOTATION, PYTHON = EventKind.ANNOTATION, EventKind.PYTHON_CALL


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (
            "outer 0..100\n a 0..40\n  b 0..40\n c 40..100\nnext 100..100\nlast 100..120",
            {LANE_0: ["outer", "a", "b", "c", "next", "last"]},
        ),
        (
            "first 0..50\nsecond 10..100\nwithin 20..30\ninside 60..70",
            {LANE_0: ["first", "within", "inside"], LANE_1: ["second"]},
        ),
        (  # an asynchronous span moves aside for operators
            [span("request", 0, 50, kind=ANNOTATION, is_async=True), span("aten::mm", 10, 90)],
            {LANE_0: ["aten::mm"], LANE_1: ["request"]},
        ),
        (
            [span("request", 0, 100, kind=ANNOTATION, is_async=True), span("aten::mm", 10, 90)],
            {LANE_0: ["request", "aten::mm"]},
        ),
        (  # Python frames move aside for the step that they reach into
            [
                span("main", 0, 200, kind=PYTHON),
                span("step() #1", 10, 20, kind=PYTHON),
                span("enter #1", 11, 19, kind=PYTHON),
                span("ProfilerStep#1", 15, 105, is_async=True),
                span("aten::mm", 30, 40),
                span("step() #2", 100, 110, kind=PYTHON),
            ],
            {
                LANE_0: ["main", "ProfilerStep#1", "aten::mm"],
                LANE_1: ["step() #1", "enter #1", "step() #2"],
            },
        ),
    ],
)
def test_spans_that_overlap_without_nesting_move_aside(described, expected):
    assert lines(build_trace(described)) == expected


OVERLAPPING = [
    span("request 1", 0, 50, kind=EventKind.ANNOTATION, is_async=True),
    span("request 2", 10, 90, kind=EventKind.ANNOTATION, is_async=True),
    span("aten::mm", 20, 60),
]


def test_a_line_beside_a_thread_and_annotations_on_it_say_which_thread_it_is():
    rows = document_of(build_trace(OVERLAPPING))["traceEvents"]

    lines = [row for row in rows if row["name"] == "thread_name"]
    marks = {row["tid"]: row["args"].get("overlaps tid") for row in lines}
    moved = [row for row in rows if row["ph"] == "X" and marks.get(row["tid"]) == 1001]
    assert marks[1001] is None
    assert {row["name"] for row in moved} == {"request 1", "request 2"}
    assert {row["args"]["overlaps tid"] for row in moved} == {1001}


def test_lines_beside_a_thread_are_that_thread_when_they_are_read(tmp_path):
    build_trace(OVERLAPPING).export("chrome", tmp_path / "trace.json")

    trace = load_trace(tmp_path / "trace.json")

    assert trace.table("threads")["system_thread_id"].tolist() == [1001]
    assert trace.events["thread"].tolist() == [0, 0, 0]


def test_lines_beside_a_thread_have_numbers_no_thread_has():
    spans = [span(n, i, 100 + i, thread) for i, (n, thread) in enumerate(["aA", "bA", "aB", "bB"])]
    document = document_of(build_trace(spans))

    rows = [e for e in document["traceEvents"] if e["ph"] == "M" and e["pid"] == 1001]
    order = {e["tid"]: e["args"]["sort_index"] for e in rows if e["name"] == "thread_sort_index"}
    assert order == {1001: 1001, 1002: 1002, 4194305: 1001, 4194306: 1002}
    placed = {e["name"]: e["tid"] for e in document["traceEvents"] if e["ph"] == "X"}
    assert placed["b"] in (4194305, 4194306)


@given(ANY_SPANS)
def test_every_span_is_there_and_those_on_a_line_nest(spans):
    rows = spans_of(document_of(build_trace(spans)))

    assert sorted(row["args"]["Ev Idx"] for row in rows) == list(range(len(spans)))
    for line in {row["tid"] for row in rows}:
        open_ends = []
        for row in (row for row in rows if row["tid"] == line):
            begin, end = round(row["ts"] * 1000), round((row["ts"] + row["dur"]) * 1000)
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)
