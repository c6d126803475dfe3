"""The rows of a Chrome trace: what Kineto's files hold, from tables described in the test."""

import gzip
import json

import numpy as np
import pytest

from opscope.errors import UsageError
from opscope.export.chrome import writer as chrome_writer
from opscope.export.chrome.writer import write_chrome_trace
from opscope.trace.names import Names
from opscope.trace.schema import AllocationAction, EventKind, RecordScope, ScalarType
from opscope.trace.trace import Trace
from support.build_trace import ORIGIN_NS, allocation, build_trace, kernel, span, tensor

PERIOD_NS = 7_889_238 * 10**9


def load(path):
    """The file as Python objects; a number with a fraction as exact nanoseconds."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return json.loads(text, parse_float=lambda number: int(number.replace(".", "")))


@pytest.fixture
def export(tmp_path):
    def run(trace, name="trace.json", **options):
        path = tmp_path / name
        write_chrome_trace(trace, path, **options)
        return load(path)

    return run


def spans_of(document):
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]


def named(document, name):
    found = [e for e in document["traceEvents"] if e["name"] == name]
    assert len(found) == 1, f"{len(found)} rows are called {name}"
    return found[0]


def thread_names(document):
    rows = [e for e in document["traceEvents"] if e["name"] == "thread_name"]
    return {row["tid"]: row["args"]["name"] for row in rows}


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


def test_the_top_level_is_kinetos_with_what_the_user_added(export):
    metadata = {
        "process_id": 7,
        "host_name": "box",
        "trace_id": "ABC",
        "program": "train.py",
        "record_shapes": True,
        "with_stack": True,
        "with_flops": False,
        "user": {"note": 'say "hi" </script>', "loss": float("nan")},
    }

    document = export(build_trace("a 0..1"), "trace.json") | {}
    assert list(document) == [
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "traceEvents",
        "traceName",
    ]

    document = export(build_trace("a 0..1", metadata=metadata))
    assert list(document) == [
        "schemaVersion",
        "deviceProperties",
        "trace_id",
        "with_stack",
        "record_shapes",
        "note",
        "loss",
        "host_name",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "traceEvents",
        "traceName",
    ]
    assert document["schemaVersion"] == document["with_stack"] == 1
    assert document["displayTimeUnit"] == "ms"
    assert document["baseTimeNanoseconds"] == ORIGIN_NS // PERIOD_NS * PERIOD_NS
    assert document["note"] == 'say "hi" </script>'
    assert document["loss"] == "nan"
    assert document["traceName"].endswith("trace.json")


def test_a_user_key_never_hides_a_key_of_the_format(export):
    metadata = {"user": {"traceEvents": "mine", "schemaVersion": 9}}

    document = export(build_trace("a 0..1", metadata=metadata))

    assert document["schemaVersion"] == 1
    assert len(spans_of(document)) == 1
    assert document["user traceEvents"] == "mine"
    assert document["user schemaVersion"] == 9


def test_options_that_torch_adds_to_what_the_user_added_are_there_once(export):
    metadata = {"with_stack": True, "user": {"with_stack": 1, "record_shapes": 1}}

    document = export(build_trace("a 0..1", metadata=metadata))

    assert document["with_stack"] == document["record_shapes"] == 1
    assert not [key for key in document if key.startswith("user ")]


def test_metadata_of_an_imported_file_is_written_again(export):
    metadata = {
        "imported_from": "old.json",
        "schemaVersion": 1,
        "traceName": "old.json",
        "distributedInfo": {"rank": 3},
        "process_names": {"1": "python"},
    }

    document = export(build_trace("a 0..1", metadata=metadata))

    assert document["distributedInfo"] == {"rank": 3}
    assert document["traceName"] != "old.json"
    assert "imported_from" not in document and "process_names" not in document


def test_the_last_rows_are_where_readers_look_for_them(export):
    trace = build_trace(
        "a 10..20\n b 30..40",
        metadata={"start_ns": ORIGIN_NS + 5_000, "end_ns": ORIGIN_NS + 60_000},
    )

    rows = export(trace)["traceEvents"]

    base = ORIGIN_NS // PERIOD_NS * PERIOD_NS
    assert rows[-4]["name"] == "PyTorch Profiler (0)"
    assert rows[-4]["ts"] == ORIGIN_NS + 5_000 - base
    assert rows[-4]["dur"] == 55_000
    assert rows[-3]["name"] == "process_sort_index"
    assert rows[-2]["name"] == "Iteration Start: PyTorch Profiler"
    assert rows[-1]["name"] == "Record Window End"
    for row in rows:
        assert row["ts"] >= rows[-4]["ts"]
        assert row["ts"] + row.get("dur", 0) <= rows[-1]["ts"]


def test_times_read_as_floats_stay_inside_the_profile(export, tmp_path):
    # GIVEN times that doubles cannot hold to the nanosecond once added up
    start = ORIGIN_NS + np.arange(2000, dtype=np.int64) * 1_000_003
    trace = Trace(
        {
            "events": {
                "start_ns": start,
                "duration_ns": np.full(2000, 999_999),
                "name": [0] * 2000,
            },
            "threads": {"system_thread_id": [5]},
        },
        Names.from_strings(["a"]),
    )

    # WHEN the file is read as JSON usually is
    write_chrome_trace(trace, tmp_path / "t.json")
    rows = json.loads((tmp_path / "t.json").read_text())["traceEvents"]

    # THEN nothing ends after the end, and every time is still exact
    assert max(row["ts"] + row.get("dur", 0) for row in rows) <= rows[-1]["ts"]
    base = start[0] // PERIOD_NS * PERIOD_NS
    got = [round(row["ts"] * 1000) for row in rows if row["ph"] == "X" and row["name"] == "a"]
    assert got == (start - base).tolist()


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
    assert module == {
        "Python parent id": 2,
        "Python id": 3,
        "Python module id": 0,
        "Ev Idx": 2,
    }
    # The operator between them is no Python call, so it is not the parent.
    assert rows["<built-in function add>"]["args"]["Python parent id"] == 3
    assert rows["gc"]["args"] == {"Ev Idx": 5}


def test_modules_are_numbered_within_their_class(export):
    trace = build_trace(
        [
            span("m", 0, 1, kind=EventKind.MODULE_CALL, module="Linear_0"),
            span("m", 2, 3, kind=EventKind.MODULE_CALL, module="ReLU_0"),
            span("m", 4, 5, kind=EventKind.MODULE_CALL, module="Linear_1"),
            span("m", 6, 7, kind=EventKind.MODULE_CALL, module="ReLU_0"),
        ]
    )

    rows = spans_of(export(trace))

    assert [row["args"]["Python module id"] for row in rows] == [0, 0, 1, 0]


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


def test_inputs_of_every_sort(export):
    undefined = tensor(dtype="float32", sizes=()) | {"dtype": -1, "sizes": [], "strides": []}
    inputs = [
        tensor(2, 3, dtype="bfloat16", strides=[1, 2]),
        [tensor(4), tensor(5, 6, dtype="int64")],
        undefined,
        None,
        True,
        7,
        2.5,
        1 + 2j,
        "text",
        [1, 2],
        [True],
        [0.5],
        [],
    ]
    trace = build_trace([span("op", 0, 1, inputs=inputs)])

    args = spans_of(export(trace))[0]["args"]

    scalars = ["Scalar"] * 4
    lists = ["ScalarList"] * 4
    assert args["Input type"] == ["c10::BFloat16", "TensorList", "", "", *scalars, "", *lists]
    assert args["Input Dims"] == [[2, 3], [[4], [5, 6]], *[[]] * 11]
    assert args["Input Strides"] == [[1, 2], [[1], [6, 1]], *[[]] * 11]
    assert args["Concrete Inputs"] == (
        ["", "", "", "", "True", "7", "2.5", "(1+2j)", "", "[1, 2]", "[True]", "[0.5]", "[]"]
    )


def test_an_empty_list_of_tensors_and_a_list_too_long_to_keep(export):
    trace = build_trace([span("op", 0, 1, inputs=[1, 1])])
    scalars = dict(trace.table("scalars")._columns)
    scalars["type"] = [ScalarType.TENSOR_LIST, ScalarType.INT_LIST]
    scalars["value"] = [-1, -1]
    trace = Trace({**trace._tables, "scalars": scalars}, trace.names)

    args = spans_of(export(trace))[0]["args"]

    assert args["Input type"] == ["TensorList", ""]
    assert args["Concrete Inputs"] == ["", ""]
    assert args["Input Dims"] == [[], []]


def test_outputs_are_not_inputs_and_gaps_keep_positions(export):
    spans = [
        span("first", 0, 1, inputs=[tensor(1)], outputs=[tensor(9), 3]),
        span("second", 2, 3, outputs=[tensor(8)]),
        span("third", 4, 5, inputs=[tensor(2), 5]),
    ]
    trace = build_trace(spans)
    tensors = {name: trace.table("tensors")[name].copy() for name in ("event", "argument", "role")}
    tensors |= {name: trace.table("tensors").lists(name) for name in ("sizes", "strides")}
    tensors["argument"][-1] = 3  # arguments 0 and 2 of the third call were not recorded
    trace = Trace({**trace._tables, "tensors": tensors}, trace.names)

    first, second, third = (row["args"] for row in spans_of(export(trace)))

    assert first["Input Dims"] == [[1]]
    assert "Input Dims" not in second
    assert third["Input Dims"] == [[], [], [], [2]]
    assert third["Concrete Inputs"] == ["", "5", "", ""]


def test_tensors_in_any_order_find_their_event(export):
    trace = build_trace([span(f"op{i}", i, i + 1, inputs=[tensor(i), i]) for i in range(5)])
    backwards = np.arange(5)[::-1]
    tensors = {"event": backwards, "argument": np.zeros(5), "dtype": np.full(5, 6)}
    lists = trace.table("tensors").lists("sizes")
    tensors["sizes"] = lists.take(backwards)
    trace = Trace({**trace._tables, "tensors": tensors}, trace.names)

    rows = spans_of(export(trace))

    assert [row["args"]["Input Dims"] for row in rows] == [[[i], []] for i in range(5)]


def test_keyword_arguments_are_written_as_torch_writes_them(export):
    keywords = {
        "stream": 0,
        "grid": "grid(1,)",
        "flag": True,
        "scale": 0.1,
        "far": float("inf"),
        "quoted": 'a "b"',
        "path": "C:\\x</script>",
        "list": [1, 2],
        "nothing": None,
        "External id": 99,
    }
    trace = build_trace(
        [
            span("k", 0, 1, keywords=keywords),
            span("k", 2, 3, keywords={"stream": "main", "grid": 3, "ok": 1}),
        ]
    )

    first, second = (row["args"] for row in spans_of(export(trace)))

    assert first["stream"] == 0
    assert first["grid"] == "grid(1,)"
    assert first["flag"] is True
    assert first["far"] == "inf"
    assert first["quoted"] == "None"
    assert first["path"] == "C:\\x</script>"
    assert first["External id"] == 1
    assert {"list", "nothing"}.isdisjoint(first)
    assert {"stream", "grid"}.isdisjoint(second) and second["ok"] == 1


def test_overload_names_follow_a_dot(export):
    trace = build_trace([span("aten::add", 0, 1, overload="Tensor"), span("aten::add", 2, 3)])

    assert [r["name"] for r in spans_of(export(trace))] == ["aten::add.Tensor", "aten::add"]


def test_unfinished_spans_say_so(export):
    rows = spans_of(export(build_trace("a 0..?\n  b 1..2\n c 3..4")))

    assert [row["args"].get("finished") for row in rows] == [False, None, None]


def test_arrows_are_numbered_from_one_in_order_of_their_heads(export):
    backward = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}
    trace = build_trace(
        [
            span("aten::a", 0, 1, sequence_number=10),
            span("aten::b", 2, 3, sequence_number=11),
            span("BBackward0", 4, 5, "autograd", sequence_number=11, **backward),
            span("ABackward0", 6, 7, "autograd", sequence_number=10, **backward),
        ]
    )

    rows = [e for e in export(trace)["traceEvents"] if e.get("cat") == "fwdbwd"]

    base = ORIGIN_NS // PERIOD_NS * PERIOD_NS
    ends = [(e["ph"], e["id"], e["tid"], e["ts"] + base - ORIGIN_NS) for e in rows]
    assert ends == [
        ("s", 2, 1001, 0),
        ("s", 1, 1001, 2_000),
        ("f", 1, 1002, 4_000),
        ("f", 2, 1002, 6_000),
    ]
    assert [e.get("bp") for e in rows] == [None, None, "e", "e"]


def test_evaluations_have_the_sequence_number_of_their_node(export):
    evaluate = "autograd::engine::evaluate_function: "
    node = {"sequence_number": 8, "forward_thread": 2}
    trace = build_trace(
        [
            span(evaluate + "MmBackward0", 0, 10),
            span("MmBackward0", 1, 8, **node),
            span("aten::mm", 2, 3, sequence_number=70),
            span("aten::other", 8, 9, sequence_number=71),
            span(evaluate + "torch::autograd::AccumulateGrad", 20, 30),
            span("torch::autograd::AccumulateGrad", 21, 29),
        ]
    )

    args = [row["args"] for row in spans_of(export(trace))]

    assert [a.get("Sequence number") for a in args] == [8, 8, 70, 71, None, None]
    assert [a.get("Fwd thread id") for a in args] == [2, 2, 0, 0, None, None]


def test_memory_is_written_as_instants(export):
    address = (1 << 64) - 16
    trace = build_trace(
        [span("aten::empty", 0, 10)],
        allocations=[
            allocation(1, 64, address=address, total_reserved_bytes=5),
            allocation(2, -64, address=address),
            allocation(3, 1 << 50, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )

    document = export(trace)
    allocated, freed, failed = (e for e in document["traceEvents"] if e["name"][0] == "[")

    assert (allocated["name"], freed["name"], failed["name"]) == (
        ("[memory]", "[memory]", "[OutOfMemory]")
    )
    assert {key: allocated[key] for key in ("ph", "cat", "s", "tid")} == {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "tid": 1001,
    }
    assert "dur" not in allocated
    assert allocated["args"] == {
        "Total Reserved": 5,
        "Total Allocated": 64,
        "Bytes": 64,
        "Device Id": -1,
        "Device Type": 0,
        "Addr": address,
        "finished": False,
        "Ev Idx": 1,
    }
    assert freed["args"]["Bytes"] == -64
    assert "Addr" not in failed["args"] and failed["args"]["Bytes"] == 1 << 50


def test_a_collectives_kernel_says_what_it_communicates(export):
    trace = build_trace(
        [
            span("record_param_comms", 0, 10, keywords={"Collective name": "allreduce"}),
            span("cudaLaunchKernel", 2, 4, kind=EventKind.RUNTIME_CALL),
            span("aten::add", 11, 20),
            span("cudaLaunchKernel", 12, 14, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[
            kernel("ncclDevKernel", 5, 20, launch=1, correlation_id=9),
            kernel("add", 20, 30, launch=3, correlation_id=10),
        ],
    )

    document = export(trace)

    assert named(document, "ncclDevKernel")["args"]["Collective name"] == "allreduce"
    assert "Collective name" not in named(document, "add")["args"]


def test_a_device_has_its_own_process_and_streams(export):
    trace = build_trace(
        [
            span("aten::mm", 0, 10),
            span("cudaLaunchKernel", 2, 4, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[
            kernel("gemm", 5, 20, launch=1, correlation_id=9, grid=[4, 2, 1], block=[128, 1, 1]),
            kernel("Memcpy HtoD", 20, 22, kind=1, size_bytes=4096, stream=8),
            kernel("Stream Synchronize", 22, 23, kind=3),
        ],
        metadata={"process_id": 50},
    )

    document = export(trace)

    launch, gemm = named(document, "cudaLaunchKernel"), named(document, "gemm")
    assert launch["cat"] == "cuda_runtime"
    assert launch["args"] == {"External id": 1, "correlation": 9, "Ev Idx": 1}
    assert (gemm["cat"], gemm["pid"], gemm["tid"]) == ("kernel", 0, 7)
    assert gemm["args"] == {
        "External id": 1,
        "device": 0,
        "context": 0,
        "stream": 7,
        "correlation": 9,
        "grid": [4, 2, 1],
        "block": [128, 1, 1],
        "Ev Idx": 2,
    }
    assert named(document, "Memcpy HtoD")["args"]["bytes"] == 4096
    assert named(document, "Stream Synchronize")["args"]["cuda_sync_kind"] == "Stream Synchronize"
    arrows = [e for e in document["traceEvents"] if e.get("cat") == "ac2g"]
    assert [(e["ph"], e["id"], e["pid"]) for e in arrows] == [("s", 9, 50), ("f", 9, 0)]
    rows = document["traceEvents"]
    label = next(i for i, e in enumerate(rows) if e.get("args") == {"labels": "GPU 0"})
    assert rows[label + 1]["args"] == {"sort_index": 5_000_000}
    assert thread_names(document) == {1001: "thread 1001 (main)", 7: "stream 7 ", 8: "stream 8 "}


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


def test_gzip_holds_the_same_text(tmp_path, monkeypatch):
    monkeypatch.setattr(chrome_writer, "BLOCK_BYTES", 1000)
    trace = build_trace([span(f"op{i}", i, i + 1, inputs=[tensor(2)]) for i in range(300)])

    write_chrome_trace(trace, tmp_path / "t.json")
    write_chrome_trace(trace, tmp_path / "t.json.gz")

    plain = (tmp_path / "t.json").read_text()
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode() == plain.replace(
        "t.json", "t.json.gz"
    )


def test_blocks_of_any_size_make_the_same_file(monkeypatch):
    trace = build_trace([span(f"op{i}", i, i + 1) for i in range(100)])
    whole = b"".join(bytes(b) for b in chrome_writer.chrome_blocks(trace, "t"))
    monkeypatch.setattr(chrome_writer, "BLOCK_BYTES", 1)

    blocks = [bytes(b) for b in chrome_writer.chrome_blocks(trace, "t")]

    assert len(blocks) > 100
    assert b"".join(blocks) == whole


def test_a_path_that_cannot_be_written_is_the_users_error(tmp_path):
    with pytest.raises(UsageError, match=r"no/such/t\.json: No such file"):
        write_chrome_trace(build_trace("a 0..1"), tmp_path / "no/such/t.json")
