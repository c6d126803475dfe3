"""The rows of a Chrome trace: what Kineto's files hold, from tables described in the test."""

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span
from support.chrome_files import spans_of


def test_python_calls_can_be_left_out(export):
    spans = [
        span("f", 0, 100, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 10, 20, parent=0),
        span("c", 30, 40, kind=EventKind.C_CALL),
    ]

    document = export(build_trace(spans), with_python=False)

    assert [row["name"] for row in spans_of(document)] == ["aten::mm"]
    assert spans_of(document)[0]["args"]["External id"] == 2
    assert export(build_trace(spans[:1]), with_python=False)["traceEvents"][-4]["dur"] == 100_000


def test_unfinished_spans_say_so(export):
    rows = spans_of(export(build_trace("a 0..?\n  b 1..2\n c 3..4")))

    assert [row["args"].get("finished") for row in rows] == [False, None, None]


def test_events_out_of_order_are_written_by_start(export):
    trace = Trace(
        {
            "events": {
                "start_ns": [30, 10, 10, 20],
                "duration_ns": [5, 5, 40, 1],
                "name": [0, 1, 2, 3],
            },
            "threads": {"system_thread_id": [5]},
        },
        Names.from_strings(["late", "inner", "outer", "middle"]),
    )

    rows = spans_of(export(trace))

    assert [row["name"] for row in rows] == ["outer", "inner", "middle", "late"]
    assert [row["args"]["Ev Idx"] for row in rows] == [2, 1, 3, 0]
    assert {row["tid"] for row in rows} == {5}
