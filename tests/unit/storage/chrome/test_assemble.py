"""Chrome JSON to traces: what each kind of event becomes."""

import json

import pytest

from opscope import load_trace
from opscope.columns.schema import AllocationAction, EventKind, RecordScope, ScalarType
from support.chrome_files import names, op


@pytest.fixture
def read(tmp_path):
    """Load a list of events as torch.profiler would have written them."""

    def load_events(events, **top):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({**top, "traceEvents": events}))
        return load_trace(path)

    return load_events


def text(trace, table, column):
    return [trace.names[i] for i in trace.table(table)[column]]


def test_spans_are_put_in_start_order_with_parents_per_thread(read):
    trace = read([
        op("inner", 12.5, 2),
        op("other thread", 11, 100, tid=2),
        op("outer", 10, 20.25),
        op("python", 10, 20.25, cat="python_function"),
    ])  # fmt: skip
    assert names(trace) == ["python", "outer", "other thread", "inner"]
    assert trace.events["parent"].tolist() == [-1, 0, -1, 1]
    assert trace.events["start_ns"].tolist() == [10_000, 10_000, 11_000, 12_500]
    assert trace.events["duration_ns"].tolist() == [20_250, 20_250, 100_000, 2_000]
    assert trace.table("threads")["system_thread_id"].tolist() == [1, 2]


def test_kinds_scopes_steps_and_overloads(read):
    trace = read([
        op("ProfilerStep#3", 0, 50, cat="user_annotation"),
        op("aten::mm.out", 1, 2),
        op("autograd::engine::evaluate_function: MmBackward0", 5, 9, **{"Sequence number": 7,
            "Fwd thread id": 1}),
        op("MmBackward0", 6, 2, **{"Sequence number": 7, "Fwd thread id": 1}),
        op("cudaLaunchKernel", 20, 1, cat="cuda_runtime"),
        op("any.thing else", 60, 1, cat="my tool"),
    ])  # fmt: skip
    events = trace.events
    assert (names(trace)[1], names(trace)[-1]) == ("aten::mm", "any.thing else")
    assert text(trace, "events", "overload") == ["", "out", "", "", "", ""]
    assert events["kind"].tolist() == [
        EventKind.ANNOTATION, EventKind.OPERATOR, EventKind.OPERATOR, EventKind.OPERATOR,
        EventKind.RUNTIME_CALL, EventKind.ANNOTATION,
    ]  # fmt: skip
    assert events["scope"].tolist() == [
        RecordScope.USER_SCOPE, 0, 0, RecordScope.BACKWARD_FUNCTION, 0, RecordScope.USER_SCOPE,
    ]  # fmt: skip
    assert events["step"].tolist() == [3, 3, 3, 3, 3, -1]
    assert events["sequence_number"].tolist() == [-1, -1, 7, 7, -1, -1]
    assert events["forward_thread"].tolist() == [0, 0, 1, 1, 0, 0]


def test_backward_nodes_without_a_sequence_number_are_known_by_the_engine_around_them(read):
    trace = read([
        op("autograd::engine::evaluate_function: AccumulateGrad", 0, 9),
        op("AccumulateGrad", 1, 7),
        op("AccumulateGrad", 2, 3),
        op("AccumulateGrad", 20, 3),
    ])  # fmt: skip
    backward = RecordScope.BACKWARD_FUNCTION
    assert trace.events["scope"].tolist() == [0, backward, 0, 0]


def test_how_arguments_are_printed_says_their_kinds(read):
    said = [
        ("Scalar", "6", ScalarType.INT), ("Scalar", "-1", ScalarType.INT),
        ("Scalar", "True", ScalarType.BOOL), ("Scalar", "0.", ScalarType.FLOAT),
        ("Scalar", "1e-05", ScalarType.FLOAT), ("Scalar", "-inf", ScalarType.FLOAT),
        ("Scalar", "2+1j", ScalarType.COMPLEX), ("Scalar", "", ScalarType.OTHER),
        ("Scalar", "cpu", ScalarType.STRING), ("ScalarList", "[]", ScalarType.INT_LIST),
        ("Scalar", "nan", ScalarType.FLOAT), ("Scalar", "1_0.5", ScalarType.STRING),
        ("Scalar", "e5", ScalarType.STRING), ("Scalar", "1.5e-3", ScalarType.FLOAT),
        ("ScalarList", "[0.5]", ScalarType.FLOAT_LIST),
        ("ScalarList", "[True, False]", ScalarType.BOOL_LIST),
        ("ScalarList", "[?]", ScalarType.OTHER_LIST), ("Device", "cpu", ScalarType.OTHER),
    ]  # fmt: skip
    kinds, values, expected = (list(column) for column in zip(*said, strict=True))
    trace = read([op("f", 0, 1, **{"Input type": kinds, "Concrete Inputs": values})])
    assert trace.table("scalars")["type"].tolist() == expected
    assert text(trace, "scalars", "value") == values


def test_argument_rows_follow_their_events_when_the_file_is_not_in_order(read):
    shape = {"Input type": ["float", "Scalar"], "Concrete Inputs": ["", "1"]}
    trace = read([
        op("late", 10, 1, **shape, **{"Input Dims": [[7, 7], []]}),
        op("early", 0, 1, **shape, **{"Input Dims": [[3], []]}),
    ])  # fmt: skip
    tensors = trace.table("tensors")
    assert names(trace) == ["early", "late"]
    assert tensors["event"].tolist() == [0, 1]
    assert [tensors.lists("sizes")[i] for i in range(2)] == [[3], [7, 7]]
    assert trace.table("scalars")["event"].tolist() == [0, 1]


def memory(ts, size, address, ph="i", name="[memory]"):
    return {"ph": ph, "cat": "cpu_instant_event", "name": name, "pid": 9, "tid": 1, "ts": ts,
            "args": {"Addr": address, "Bytes": size, "Total Allocated": 64, "Device Type": 0,
                     "Device Id": -1}}  # fmt: skip


def test_allocations_are_paired_and_find_their_span(read):
    high = (1 << 64) - 16
    trace = read([
        op("aten::empty", 0, 10),
        op("aten::resize_", 2, 3),
        memory(20, -64, high),
        memory(3, 64, high),
        memory(6, 32, 0x20, ph="X"),  # as torch's Python writer has them
        memory(30, 64, high),
        memory(40, -8, 0x99),
        memory(50, 1 << 50, 0, name="[OutOfMemory]"),
    ])  # fmt: skip
    table = trace.table("allocations")
    assert table["time_ns"].tolist() == [3000, 6000, 20000, 30000, 40000, 50000]
    assert table["event"].tolist() == [1, 0, -1, -1, -1, -1]
    assert table["allocation_id"].tolist() == [0, 1, 0, 2, -1, -1]
    assert table["address"][0] == high
    assert table["action"].tolist() == [
        AllocationAction.ALLOCATE, AllocationAction.ALLOCATE, AllocationAction.FREE,
        AllocationAction.ALLOCATE, AllocationAction.FREE, AllocationAction.OUT_OF_MEMORY,
    ]  # fmt: skip


def test_python_spans_become_functions_modules_and_pauses(read):
    trace = read([
        op("train.py(12): main", 0, 100, cat="python_function"),
        op("nn.Module: Linear_0", 10, 50, cat="python_function"),
        op("aten::linear", 20, 10),
        op("<built-in function linear>", 15, 30, cat="python_function"),
        op("Python GC", 70, 5, cat="python_function"),
        op("gc: generation 2", 80, 5, cat="python_function"),
    ])  # fmt: skip
    kinds = [EventKind(kind).name for kind in trace.events["kind"]]
    assert kinds == ["PYTHON_CALL", "MODULE_CALL", "C_CALL", "OPERATOR", "GC_PAUSE", "GC_PAUSE"]
    calls = trace.table("python_calls")
    assert calls["event"].tolist() == [0, 1, 2]
    frames = [trace.names[i] for i in trace.table("frames")["function"]]
    assert [frames[i] if i >= 0 else None for i in calls["frame"]] == [
        "main", None, "<built-in function linear>",
    ]  # fmt: skip
    assert [frames[i] if i >= 0 else None for i in calls["caller"]] == [None, "main", "main"]
    assert text(trace, "modules", "name") == ["Linear_0"]
    assert text(trace, "modules", "class_name") == ["Linear"]
    main = frames.index("main")
    assert trace.table("frames")["line"][main] == 12
    assert trace.names[trace.table("frames")["file"][main]] == "train.py"


def test_device_activities_find_their_launch(read):
    gpu = {"device": 0, "stream": 7, "context": 1}
    trace = read([
        op("aten::mm", 0, 10, **{"External id": 5}),
        op("cudaLaunchKernel", 3, 1, cat="cuda_runtime", correlation=77, **{"External id": 5}),
        op("gemm", 20, 5, tid=7, cat="kernel", correlation=77, grid=[2, 1, 1], block=[128, 1, 1],
           **gpu),
        op("Memcpy HtoD", 18, 1, tid=7, cat="gpu_memcpy", correlation=78, bytes=4096,
           **{"External id": 5}, **gpu),
        op("forward", 18, 9, tid=7, cat="gpu_user_annotation"),
    ])  # fmt: skip
    table = trace.table("gpu")
    assert text(trace, "gpu", "name") == ["Memcpy HtoD", "forward", "gemm"]
    assert table["kind"].tolist() == [1, 4, 0]
    assert table["launch"].tolist() == [0, -1, 1]
    assert table["size_bytes"].tolist() == [4096, 0, 0]
    assert table.lists("grid")[2] == [2, 1, 1]
    assert table["stream"].tolist() == [7, 7, 7]
    assert len(trace.table("threads")) == 1, "streams are not threads"


def test_arrows_link_forward_to_backward(read):
    def arrow(ph, ts, number):
        return {"ph": ph, "cat": "fwdbwd", "id": number, "pid": 9, "tid": 1, "ts": ts}

    trace = read([
        op("aten::mm", 0, 10, **{"Sequence number": 4, "Fwd thread id": 0}),
        op("aten::add", 12, 3, **{"Sequence number": 5, "Fwd thread id": 0}),
        op("evaluate", 20, 10),
        op("MmBackward0", 21, 5, **{"Sequence number": 4, "Fwd thread id": 3}),
        arrow("s", 0, 1), arrow("f", 21, 1), arrow("s", 12, 2),
    ])  # fmt: skip
    links = trace.table("links")
    assert (links["source"].tolist(), links["target"].tolist()) == ([0], [3])
    assert trace.table("threads")["torch_thread_id"].tolist() == [3]


def test_overlapping_spans_keep_a_sane_tree(read):
    trace = read([op("around", 0, 100), op("first", 10, 20), op("second", 20, 30)])
    assert trace.events["parent"].tolist() == [-1, 0, 0]
    assert not trace.events["is_async"].any()
    assert trace.ledger["import"]["spans that overlap others of their thread"] == 1


def test_names_of_threads_and_processes_and_the_files_own_metadata(read):
    def name(what, pid, tid, text):
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": text}}

    trace = read(
        [op("a", 0, 1), name("thread_name", 9, 1, "thread 1 (pt_autograd_0)"),
         name("process_name", 9, 0, "python")],
        schemaVersion=1, distributedInfo={"rank": 3}, ratio=0.25, nested=[{"x": [1.5]}],
    )  # fmt: skip
    assert text(trace, "threads", "name") == ["pt_autograd_0"]
    assert trace.metadata == {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 3},
        "ratio": 0.25,
        "nested": [{"x": [1.5]}],
        "imported_from": "trace.json",
        "process_names": {"9": "python"},
    }


def test_what_is_left_out_is_counted(read):
    trace = read([
        op("PyTorch Profiler (0)", 0, 10, cat="Trace"),
        {"ph": "C", "name": "counter", "pid": 1, "ts": 0, "args": {"x": 1}},
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 1},
        {"ph": "i", "name": "a mark of the program's", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "cat": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 0},
        {"ph": "s", "cat": "other", "id": 1, "pid": 1, "tid": 1, "ts": 0},
    ])  # fmt: skip
    assert trace.ledger["import"] == {
        "events in the file": 6,
        "internal events of the profiler that wrote the file": 2,
        "not shown: samples of counters": 1,
        "not shown: instants": 1,
        "dropped: arrows to device activity that is not in the file": 1,
        "not shown: arrows of kind 'other'": 1,
    }


CATEGORIES = {
    "cpu_op": "aten::mm", "user_annotation": "step", "python_function": "f.py(1): f",
    "cuda_runtime": "cudaLaunchKernel", "cuda_driver": "cuLaunchKernel",
    "hip_runtime": "hipLaunchKernel", "mtia_runtime": "launch", "privateuse1_driver": "launch",
    "mtia_ccp_events": "gemm", "kernel": "gemm", "gpu_memcpy": "Memcpy DtoH",
    "gpu_memset": "Memset", "gpu_user_annotation": "step", "cuda_profiler_range": "gemm",
    "hpu_op": "matmul", "of another tool": "anything", "overhead": "Buffer Flush",
}  # fmt: skip


def test_every_category_is_written_again_as_it_was(read, tmp_path):
    spans = [
        op(name, 10 * i, 5, tid=i + 1, cat=category)
        for i, (category, name) in enumerate(CATEGORIES.items())
    ]
    trace = read(spans)
    trace.export("chrome", tmp_path / "again.json")

    rows = json.loads((tmp_path / "again.json").read_text())["traceEvents"]
    written = {(row["cat"], row["name"]) for row in rows if row["ph"] == "X"}
    assert written - {("Trace", "PyTorch Profiler (0)")} == set(CATEGORIES.items())
