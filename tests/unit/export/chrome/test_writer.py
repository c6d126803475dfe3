"""The rows of a Chrome trace: what Kineto's files hold, from tables described in the test."""

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from opscope.export.chrome import writer as chrome_writer
from opscope.export.chrome.writer import write_chrome_trace
from support.build_trace import ORIGIN_NS, build_trace, span, tensor
from support.chrome_files import spans_of, thread_names

PERIOD_NS = 7_889_238 * 10**9


def test_an_operator_has_kinetos_fields_in_kinetos_order(export):
    trace = build_trace(
        [span("aten::mm", 1.25, 3.5, sequence_number=4, inputs=[tensor(2, 3), 1])],
        metadata={"process_id": 77},
    )

    row = spans_of(export(trace))[0]

    base = ORIGIN_NS // PERIOD_NS * PERIOD_NS
    assert row == {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 77,
        "tid": 1001,
        "ts": ORIGIN_NS + 1250 - base,
        "dur": 2250,
        "args": {
            "External id": 1,
            "Sequence number": 4,
            "Fwd thread id": 0,
            "Record function id": 1,
            "Concrete Inputs": ["", "1"],
            "Input type": ["float", "Scalar"],
            "Input Strides": [[3, 1], []],
            "Input Dims": [[2, 3], []],
            "Ev Idx": 0,
        },
    }
    assert list(row) == ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]


def test_kinds_of_events_have_their_categories(export):
    trace = build_trace(
        [
            span("step", 0, 100, kind=EventKind.ANNOTATION),
            span("train.py(3): main", 1, 90, kind=EventKind.PYTHON_CALL),
            span("nn.Module: Linear_0", 2, 80, kind=EventKind.MODULE_CALL, module="Linear_0"),
            span("aten::linear", 3, 70),
            span("<built-in function add>", 4, 60, kind=EventKind.C_CALL),
            span("gc", 91, 95, kind=EventKind.GC_PAUSE),
        ]
    )

    rows = {row["name"]: row for row in spans_of(export(trace))}

    categories = {name: row["cat"] for name, row in rows.items()}
    assert categories == {
        "step": "user_annotation",
        "train.py(3): main": "python_function",
        "nn.Module: Linear_0": "python_function",
        "aten::linear": "cpu_op",
        "<built-in function add>": "python_function",
        "gc": "python_function",
    }
    assert rows["step"]["args"] == {"External id": 1, "Record function id": 1, "Ev Idx": 0}
    main = rows["train.py(3): main"]["args"]
    assert main == {"Python parent id": None, "Python id": 2, "Ev Idx": 1}
    module = rows["nn.Module: Linear_0"]["args"]
    assert module == {"Python parent id": 2, "Python id": 3, "Python module id": 0, "Ev Idx": 2}
    # The operator between them is no Python call, so it is not the parent.
    assert rows["<built-in function add>"]["args"]["Python parent id"] == 3
    assert rows["gc"]["args"] == {"Ev Idx": 5}


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


def test_threads_with_one_number_share_a_line(export):
    trace = build_trace([span("a", 0, 1, "first"), span("b", 2, 3, "second")])
    threads = {"system_thread_id": [40, 40], "name": trace.table("threads")["name"]}
    trace = Trace({**trace._tables, "threads": threads}, trace.names)

    document = export(trace)

    assert [row["tid"] for row in spans_of(document)] == [40, 40]
    assert thread_names(document) == {40: "thread 40 (first)"}


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


def test_an_empty_trace_is_a_valid_file(export):
    document = export(build_trace([]))

    assert spans_of(document) == []
    assert document["traceEvents"][-1]["name"] == "Record Window End"


def test_events_without_a_threads_table_have_a_line(export):
    trace = Trace({"events": {"start_ns": [5], "name": [0]}}, Names.from_strings(["a"]))

    assert spans_of(export(trace))[0]["name"] == "a"


def test_a_file_can_be_written_again_and_again(tmp_path):
    trace = build_trace("a 0..1")
    path = tmp_path / "t.json"

    write_chrome_trace(trace, path)
    first = path.read_bytes()
    write_chrome_trace(trace, str(path))

    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_blocks_of_any_size_make_the_same_file(monkeypatch):
    trace = build_trace([span(f"op{i}", i, i + 1) for i in range(100)])
    whole = b"".join(bytes(b) for b in chrome_writer.chrome_blocks(trace, "t"))
    monkeypatch.setattr(chrome_writer, "BLOCK_BYTES", 1)

    blocks = [bytes(b) for b in chrome_writer.chrome_blocks(trace, "t")]

    assert len(blocks) > 100
    assert b"".join(blocks) == whole
