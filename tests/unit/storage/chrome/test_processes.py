"""Several processes in one file, and what happened on which device."""

import json

import pytest

from opscope import load, load_trace
from opscope.analysis.device_use.device_use import find_device_use
from opscope.columns.codes import DeviceType, EventKind, GpuKind
from opscope.errors import TraceFormatError, UsageError
from opscope.recording.streams.load import load_trace as load_process
from opscope.storage.chrome import load_chrome_processes
from opscope.storage.partition import PROCESS, RANK, Partition
from support.build_trace import build_trace, kernel, span
from support.chrome_files import names, op


def of_rank(host, device, kernel_us):
    found = []
    for i in range(4):
        found += [
            {**op("aten::mm", 1000 + 100 * i, 9), "pid": host},
            {**op("cudaLaunchKernel", 1002 + 100 * i, 5, cat="cuda_runtime", correlation=i + 1),
             "pid": host},
            {**op("gemm", 1010 + 100 * i, kernel_us, tid=7, cat="kernel", correlation=i + 1,
                  device=0, stream=7), "pid": device},
        ]  # fmt: skip
    return found


@pytest.fixture
def write(tmp_path):
    def written(events):
        (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
        return tmp_path / "t.json"

    return written


@pytest.mark.parametrize("label", ["[TP0{}] ", "rank {}: ", "host-{} ", "rank{}/"])
def test_each_process_has_its_own_devices_and_launches(write, label):
    events = []
    for rank in (0, 1):
        prefix = label.format(rank)
        events += of_rank(f"{prefix}4{rank}", f"{prefix}0", 50 + 5 * rank)
    path = write(events)

    found = load_chrome_processes(path)

    assert list(found) == [Partition(RANK, 0), Partition(RANK, 1)]
    for rank, trace in enumerate(found.values()):
        assert len(trace.events) == 8
        assert find_device_use(trace, "all").devices[0].busy_ns == 4 * (50 + 5 * rank) * 1000
        launch = trace.table("gpu")["launch"].tolist()
        assert [trace.event_name(row) for row in launch] == ["cudaLaunchKernel"] * 4
    job = load(path)
    assert [len(trace.events) for _, trace in job.traces()] == [8, 8]
    assert len(load(path, rank=1).events) == 8
    with pytest.raises(UsageError, match=r"several ranks \(0, 1\)\. Choose one: --rank 0, or load"):
        load_process(path)
    with pytest.raises(UsageError, match="has no rank 5"):
        load_process(path, rank=5)


def test_processes_by_number_with_equal_launches_are_refused(write):
    path = write([*of_rank(40, 0, 50), *of_rank(41, 0, 55)])
    with pytest.raises(TraceFormatError, match="2 processes whose launches have the same numbers"):
        load_trace(path)


def test_asynchronous_spans_are_spans(write):
    def mark(phase, ts, **more):
        return {"ph": phase, "cat": "req", "name": "request", "pid": 1, "tid": 1, "ts": ts, **more}

    trace = load_trace(write([
        op("aten::mm", 0, 100), mark("b", 10, id=1), mark("b", 20, id=2), mark("n", 30, id=1),
        mark("e", 60, id=1), mark("e", 90, id=2),
        mark("S", 5, id2={"local": "0x1"}), mark("F", 7, id2={"local": "0x1"}),
        mark("b", 6, id=1, scope="other"), mark("e", 8, id=1, scope="other"),
    ]))  # fmt: skip

    assert trace.events["is_async"].tolist() == [False, True, True, True, True]
    assert trace.events["duration_ns"].tolist() == [100_000, 2000, 2000, 50_000, 70_000]
    assert trace.events["parent"].tolist() == [-1] * 5
    assert trace.ledger["import"]["not shown: instants"] == 1


def test_ends_are_of_what_has_their_name(write):
    def mark(phase, name, ts):
        return {"ph": phase, "cat": "cpu_op", "name": name, "ts": ts, "pid": 1, "tid": 1}

    trace = load_trace(write([mark("B", "a", 0), mark("B", "b", 100), mark("E", "a", 100),
                              mark("E", "b", 200)]))  # fmt: skip
    assert trace.events["duration_ns"].tolist() == [100_000, 100_000]
    trace = load_trace(write([mark("B", "a", 0), mark("B", "b", 1), mark("E", "?", 2),
                              {**mark("E", "", 5), "name": None}]))  # fmt: skip
    assert trace.events["duration_ns"].tolist() == [5000, 1000]


def test_ranges_with_hardware_counters_are_of_the_device_and_keep_them(write):
    trace = load_trace(write([
        op("aten::mm", 0, 100),
        {**op("gemm", 20, 50, cat="cuda_profiler_range", **{"dram__bytes.sum": 99.0}), "pid": 0},
    ]))  # fmt: skip
    assert names(trace) == ["aten::mm"]
    assert trace.table("gpu")["kind"].tolist() == [GpuKind.ANNOTATION]
    (counted,) = trace.metadata["hardware_counters"]
    assert counted["counters"] == {"dram__bytes.sum": 99.0}
    assert (counted["name"], counted["duration_ns"]) == ("gemm", 50_000)


def test_a_kind_that_is_not_known_is_where_the_file_has_it(write):
    labels = {"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "args": {"labels": "GPU 3"}}
    trace = load_trace(write([
        op("aten::mm", 0, 9),
        op("by its arguments", 1, 5, cat="new_kind", device=2, stream=7),
        {**op("by its process", 2, 5, tid=9, cat="other_kind"), "pid": 3},
        op("of the program", 3, 2, cat="my_spans"),
        labels,
    ]))  # fmt: skip
    assert names(trace) == ["aten::mm", "of the program"]
    gpu = trace.table("gpu")
    assert gpu["device_index"].tolist() == [2, 3]
    assert gpu["stream"].tolist() == [7, 9]
    assert [trace.names[i] for i in gpu["category"]] == ["new_kind", "other_kind"]


@pytest.mark.parametrize(
    ("runtime", "device"),
    [("xpu_runtime", DeviceType.XPU), ("privateuse1_runtime", DeviceType.PrivateUse1),
     ("mtia_runtime", DeviceType.MTIA), ("cuda_runtime", DeviceType.CUDA)],
)  # fmt: skip
def test_devices_have_the_kind_of_their_runtime(write, runtime, device):
    trace = load_trace(write([
        op("launch", 0, 1, cat=runtime, correlation=1),
        op("k", 2, 3, cat="kernel", correlation=1, device=0, stream=1),
    ]))  # fmt: skip
    assert trace.table("gpu")["device_type"].tolist() == [device]


def test_devices_of_one_number_in_two_processes_are_kept_apart(write):
    events = [op("aten::mm", 0, 9)]
    for process, device in ((0, {"device": 0}), (4, {"device": 0}), ("GPU", {}), ("slice 9", {})):
        events.append({**op("k", 5, 1, tid=7, cat="kernel", stream=7, **device), "pid": process})
    trace = load_trace(write(events))
    assert sorted(trace.table("gpu")["device_index"].tolist()) == [0, 1, 2, 9]


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_a_job_that_opscope_wrote_is_that_job(tmp_path, packed):
    parts = (Partition(RANK, 0), Partition(RANK, 1), Partition(PROCESS, 7001))
    for part in parts:
        spans = [
            span("aten::mm", part.number % 10, 50),
            span("cudaLaunchKernel", 50, 60, kind=EventKind.RUNTIME_CALL),
            *([span("aten::add", 70, 80)] if part.kind == RANK else []),
        ]
        kernels = [kernel("sgemm", 60, 65, launch=1, correlation_id=5)] if part.kind == RANK else ()
        trace = build_trace(spans, gpu=kernels, metadata={"process_id": 7000 - part.number % 10})
        trace.save(tmp_path / "job", **{part.kind: part.number})
    job, file = load(tmp_path / "job"), tmp_path / ("job.json.gz" if packed else "job.json")
    job.together().export("chrome", file)
    again = load(file)
    assert dict(again.traces()).keys() == set(parts)
    for part, trace in again.traces():
        assert names(trace) == names(job[part])
        launch = trace.table("gpu")["launch"].tolist()
        assert [trace.event_name(row) for row in launch] == (
            ["cudaLaunchKernel"] if part.kind == RANK else []
        )
