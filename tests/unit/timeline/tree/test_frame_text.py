"""Names of events: recorded ones, and ones written from frames."""

from opscope.columns.schema import EventKind
from opscope.timeline.tree.frame_text import event_texts, python_events
from support.build_trace import build_trace, span


def texts_of(trace):
    rows, texts = event_texts(trace)
    return [texts[row] for row in rows]


def test_calls_recorded_by_frame_alone_are_written_as_torch_writes_them():
    trace = build_trace([
        span("", 0, 10, kind=EventKind.PYTHON_CALL, frame=("a/b.py", 12, "forward")),
        span("", 1, 2, kind=EventKind.C_CALL, frame=("", -1, "<built-in function len>")),
        span("", 3, 4),
        span("aten::mm", 5, 6),
    ])  # fmt: skip

    assert texts_of(trace) == ["a/b.py(12): forward", "<built-in function len>", "", "aten::mm"]


def test_modules_get_torchs_prefix_once():
    spans = [span(name, 0, 1, kind=EventKind.MODULE_CALL) for name in ("A_0", "nn.Module: B_0")]

    trace = build_trace([*spans, span("A_0", 2, 3)])

    assert texts_of(trace) == ["nn.Module: A_0", "nn.Module: B_0", "A_0"]


def test_equal_texts_share_a_row():
    trace = build_trace([
        span("f.py(1): g", 0, 1, kind=EventKind.PYTHON_CALL),
        span("", 2, 3, kind=EventKind.PYTHON_CALL, frame=("f.py", 1, "g")),
    ])  # fmt: skip
    rows, texts = event_texts(trace)

    assert rows.tolist() == [0, 0] and texts == ["f.py(1): g"]


def test_which_events_are_frames():
    trace = build_trace([span("x", i, i + 1, kind=kind) for i, kind in enumerate(EventKind)])

    assert [EventKind(i).name for i in python_events(trace).nonzero()[0]] == [
        "PYTHON_CALL",
        "C_CALL",
        "MODULE_CALL",
        "OPTIMIZER_CALL",
    ]
