"""Recording device activity, over a fake CUPTI that plays what a program does to the device."""

from __future__ import annotations

import json
import os
import threading

import pytest
import torch
from tests.gpu.device_work import read_device_work
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity, record_function

import opscope
from opscope import load_trace
from opscope.api.trace import Trace
from opscope.columns.device_rules import check_device_rules
from opscope.columns.schema import EventKind
from opscope.torch_api.event_tree.profiler_tree import ProfilerTree

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def rows(trace: Trace, kind: int) -> list[int]:
    return [
        row for row in range(len(trace.table("gpu"))) if trace.table("gpu")["kind"][row] == kind
    ]


def name(trace: Trace, row: int) -> str:
    return trace.names[trace.table("gpu")["name"][row]]


def around(trace: Trace, event: int) -> list[str]:
    found = []
    while event >= 0:
        found.append(trace.event_name(event))
        event = int(trace.events["parent"][event])
    return found


def ledger(trace: Trace) -> dict[str, float]:
    table = trace.table("ledger")
    entries = zip(table["source"], table["what"], table["value"], strict=True)
    return {what: value for source, what, value in entries if source == "gpu"}


class LaunchingLinear(torch.nn.Linear):
    """A layer whose forward also launches a kernel, as one on a device would."""

    fake: FakeCupti

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        with record_function("launching"):
            self.fake.launch("_Z6linearPf", duration_ns=5000)
        return result


def test_work_is_linked_to_what_ran_around_its_launch(fake: FakeCupti) -> None:
    layer = LaunchingLinear(2, 2)
    layer.fake = fake
    with opscope.profile(activities=BOTH, with_modules=True) as prof:
        layer(torch.ones(1, 2))
        fake.copy(4096)
        fake.fill(64, stream=9)
    trace = prof.trace
    kernel, copy, fill = rows(trace, 0)[0], rows(trace, 1)[0], rows(trace, 2)[0]
    gpu = trace.table("gpu")
    assert name(trace, kernel) == "linear(float*)"
    assert around(trace, gpu["launch"][kernel])[:3] == [
        "cudaLaunchKernel",
        "launching",
        "nn.Module: LaunchingLinear_0",
    ]
    assert name(trace, copy) == "Memcpy HtoD (Pinned -> Device)"
    assert gpu["size_bytes"][copy] == 4096
    assert name(trace, fill) == "Memset (Device)"
    assert gpu["stream"][fill] == 9
    assert gpu.lists("grid")[kernel] == [128, 2, 1]
    assert trace.events["kind"][gpu["launch"][copy]] == EventKind.RUNTIME_CALL
    launched = gpu["launch"] >= 0
    starts = trace.events["start_ns"][gpu["launch"][launched]]
    assert (gpu["start_ns"][launched] >= starts).all()


def test_calls_of_threads_that_recorded_nothing_else_have_a_thread(fake: FakeCupti) -> None:
    with opscope.profile(activities=BOTH) as prof:
        torch.ones(1)
        thread = threading.Thread(target=lambda: fake.launch("elsewhere"))
        thread.start()
        thread.join()
    trace = prof.trace
    launch = trace.table("gpu")["launch"][rows(trace, 0)[0]]
    assert trace.event_name(launch) == "cudaLaunchKernel"
    assert trace.events["parent"][launch] == -1
    thread_id = trace.table("threads")["system_thread_id"][trace.events["thread"][launch]]
    assert thread_id not in (0, os.getpid())


def test_annotations_span_their_work_per_stream(fake: FakeCupti) -> None:
    with opscope.profile(activities=BOTH) as prof, record_function("outer"):
        with record_function("inner"):
            fake.launch("first", stream=7, duration_ns=1000)
        fake.launch("second", stream=7, duration_ns=1000)
        fake.launch("other", stream=8, duration_ns=1000)
    trace = prof.trace
    gpu = trace.table("gpu")
    spans = {(name(trace, row), int(gpu["stream"][row])): row for row in rows(trace, 4)}
    kernels = {name(trace, row): row for row in rows(trace, 0)}
    assert set(spans) == {("outer", 7), ("inner", 7), ("outer", 8)}
    outer = spans["outer", 7]
    assert gpu["start_ns"][outer] == gpu["start_ns"][kernels["first"]]
    end = gpu["start_ns"][outer] + gpu["duration_ns"][outer]
    assert end == gpu["start_ns"][kernels["second"]] + gpu["duration_ns"][kernels["second"]]


def test_replayed_graphs_know_where_they_were_captured(fake: FakeCupti) -> None:
    # GIVEN a graph captured in one recording
    with opscope.profile(activities=BOTH, record_shapes=True) as first:
        with record_function("capturing"):
            node = fake.capture_node()
        copy = fake.instantiate_node(node)
        fake.launch_graph({copy: "in_graph"})
    # WHEN it is replayed in another
    with opscope.profile(activities=BOTH) as second:
        fake.launch_graph({copy: "in_graph"})
    # THEN the first points to the event, and both know the node
    trace = first.trace
    kernel = rows(trace, 0)[0]
    assert trace.event_name(trace.table("gpu")["capture"][kernel]) == "capturing"
    assert around(trace, trace.table("gpu")["launch"][kernel]) == ["cudaGraphLaunch"]
    assert second.trace.table("gpu_graph_nodes")["node"].tolist() == [node]
    assert second.trace.table("gpu")["graph_node"].tolist() == [node]
    assert second.trace.table("gpu")["capture"].tolist() == [-1]


def test_losses_are_in_the_ledger(fake: FakeCupti) -> None:
    fake.set("missing_kind", 17)
    with opscope.profile(activities=BOTH) as prof:
        for _ in range(5):
            fake.launch("k")
    counts = ledger(prof.trace)
    assert counts["requested"] == counts["recorded"] == 10
    assert counts["work"] == 5
    assert counts["work without its launch"] == 0
    assert counts["not available: overhead"] == 1
    assert counts["dropped: by CUPTI, no buffer free"] == 0


def test_recording_goes_on_without_a_usable_cupti(
    fake: FakeCupti, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.set("subscribe_error", 39)
    with opscope.profile(activities=BOTH) as prof:
        torch.ones(2).add(1)
        fake.launch("k")
    assert "aten::add" in [prof.trace.event_name(row) for row in range(len(prof.trace.events))]
    assert len(prof.trace.table("gpu")) == 0
    assert "another profiler is using CUPTI" in capfd.readouterr().err
    assert ledger(prof.trace) == {"not recorded: CUPTI cannot be used": 1.0}
    assert "another profiler" in prof.trace.metadata["gpu"]["unavailable"]


def test_files_keep_device_tables(fake: FakeCupti, tmp_path: os.PathLike[str]) -> None:
    with opscope.profile(activities=BOTH) as prof:
        fake.launch("k")
        fake.allocate(4096, 128)
        fake.overhead(100)
    folder = f"{tmp_path}/x.opscope"
    prof.trace.save(folder)
    again = load_trace(folder)
    for table in ("gpu", "runtime_calls", "gpu_memory", "gpu_overheads"):
        before, after = prof.trace.table(table), again.table(table)
        assert len(before) == len(after) > 0
        for column in before.schema.columns:
            if not column.dtype.startswith("list"):
                assert before[column.name].tolist() == after[column.name].tolist()
    chrome = f"{tmp_path}/x.json"
    prof.export_chrome_trace(chrome)
    kernel = rows(load_trace(chrome), 0)[0]
    assert load_trace(chrome).table("gpu")["registers_per_thread"][kernel] == 32
    with open(chrome, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert {"cuda_runtime", "kernel", "ac2g"} <= {event.get("cat") for event in events}


def test_what_is_compared_on_a_gpu_names_work_its_call_and_its_operator(
    fake: FakeCupti, tmp_path: os.PathLike[str]
) -> None:
    class Launching(torch.autograd.Function):
        @staticmethod
        def forward(context: object, x: torch.Tensor) -> torch.Tensor:
            fake.launch("_Z4gemmPf", duration_ns=2000)
            return x

        @staticmethod
        def backward(context: object, *gradients: torch.Tensor) -> torch.Tensor:
            return gradients[0]

    with opscope.profile(activities=BOTH) as prof:
        Launching.apply(torch.ones(1))  # type: ignore[no-untyped-call]
        fake.driver_launch("triton_poi_0", duration_ns=1000)
    prof.export_chrome_trace(f"{tmp_path}/x.json")
    work = read_device_work(f"{tmp_path}/x.json")
    assert work.counts == {"gemm(float*)": 1, "triton_poi_0": 1}
    assert sum(work.microseconds.values()) == pytest.approx(3, abs=0.01)
    assert work.launches == {
        ("gemm(float*)", "cudaLaunchKernel", "Launching"): 1,
        ("triton_poi_0", "cuLaunchKernelEx", ""): 1,
    }


def test_the_event_tree_has_work_inside_the_call_that_launched_it(fake: FakeCupti) -> None:
    with opscope.profile(activities=BOTH) as prof, record_function("launching"):
        fake.launch("k", stream=9)
    roots = ProfilerTree(prof.trace).roots
    (launching,) = (event for event in roots if event.name == "launching")
    (call,) = (event for event in launching.children if event.children)
    (kernel,) = call.children
    assert [event.name for event in (call, kernel)] == ["cudaLaunchKernel", "k"]
    assert {str(event.tag) for event in (call, kernel)} == {"_EventType.Kineto"}
    assert kernel.parent is call
    assert (kernel.children, kernel.start_tid, repr(kernel)) == ([], 9, "<_ProfilerEvent 'k'>")
    assert kernel.end_time_ns - kernel.start_time_ns == kernel.duration_time_ns
    assert kernel.duration_time_ns == pytest.approx(1000, abs=2)
    assert len({event.id for event in (launching, call, kernel)}) == 3


def test_rules_are_checked_on_what_was_recorded(
    fake: FakeCupti, tmp_path: os.PathLike[str]
) -> None:
    with opscope.profile(activities=BOTH) as sound:
        for stream in (7, 8, 7):
            fake.launch("k", stream=stream)
    assert check_device_rules(sound.trace).doubts == []
    checked = sound.trace.ledger["device rules"]
    assert (checked.pop("work checked"), set(checked.values())) == (3, {0})
    assert "Devices: 3 device activities" in sound.key_averages().table()
    fake.set("before_launch")
    with opscope.profile(activities=BOTH) as early:
        fake.launch("k")
    assert check_device_rules(early.trace).ledger["broken: begins before its launch"] == 1
    assert early.trace.ledger["device rules"]["broken: begins before its launch"] == 1
    assert (
        "INCONSISTENT: 1 of 1 device activities begin before their launch"
        in early.key_averages().table()
    )
    early.trace.save(f"{tmp_path}/early")
    assert load_trace(f"{tmp_path}/early").ledger["device rules"]["work checked"] == 1
    fake.reset()
    fake.set("overlap")
    with opscope.profile(activities=BOTH) as overlapping:
        for _ in range(3):
            fake.launch("k", duration_ns=10**9)
    assert check_device_rules(overlapping.trace).broken["overlaps others on its stream"].count == 2


def test_graphs_are_attributed_to_operators_and_modules(fake: FakeCupti) -> None:
    class Captured(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.node = fake.capture_node()
            return x

    module = Captured()
    with opscope.profile(activities=BOTH, with_modules=True) as prof:
        with record_function("region"):
            module(torch.ones(2))
        nodes = {fake.instantiate_node(module.node): "known", 10**9: "unknown"}
        fake.launch_graph(nodes, duration_ns=3000)
    (node,) = prof.trace.sql("select operator, module from gpu_graph_nodes").fetchall()
    assert [prof.trace.names[row] for row in node] == ["region", "Captured_0"]
    assert "2 activities in CUDA graphs, 50.0% of their time" in prof.key_averages().table()


def test_chrome_files_have_what_readers_of_kineto_look_for(
    fake: FakeCupti, tmp_path: os.PathLike[str]
) -> None:
    from torch._C._profiler import _ExperimentalConfig

    config = _ExperimentalConfig(enable_cuda_sync_events=True)
    with opscope.profile(activities=BOTH, experimental_config=config) as prof:
        fake.set("driver_calls")
        launched = fake.launch("k")
        recorded = fake.record_event(3, stream=7)
        fake.wait_event(3, stream=8)
        fake.peer_copy(1000, source=1, target=0, duration_ns=1000)
        fake.overhead(2500)
    prof.export_chrome_trace(f"{tmp_path}/x.json")
    with open(f"{tmp_path}/x.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    by_category = {event.get("cat"): event for event in events if event.get("ph") == "X"}
    flush = by_category["overhead"]
    assert (flush["name"], flush["pid"], flush["dur"]) == (
        "Buffer Flush",
        -1,
        pytest.approx(2.5, abs=0.1),
    )
    assert flush["tid"] == threading.get_native_id()
    kernel = by_category["kernel"]["args"]
    assert kernel["registers per thread"] == 32
    assert kernel["shared memory"] == 1536
    assert kernel["correlation"] == by_category["cuda_driver"]["args"]["correlation"] == launched
    wait = by_category["cuda_sync"]["args"]
    assert wait["wait_on_cuda_event_record_corr_id"] == recorded
    assert wait["wait_on_stream"] == 7
    copy = by_category["gpu_memcpy"]["args"]
    assert (copy["fromDevice"], copy["inDevice"], copy["toDevice"]) == (1, 1, 0)
    assert copy["bytes"] == 1000
    read = load_trace(f"{tmp_path}/x.json").table("gpu")
    row = rows(load_trace(f"{tmp_path}/x.json"), 1)[0]
    assert (read["peer_device"][row], read["target_device"][row]) == (1, 0)
    assert copy["memory bandwidth (GB/s)"] == pytest.approx(1.0, abs=0.01)


def test_without_cuda_a_warning_says_so_and_the_cpu_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    monkeypatch.delenv("OPSCOPE_CUPTI", raising=False)
    with (
        pytest.warns(UserWarning, match="CUDA is not available"),
        opscope.profile(activities=BOTH) as prof,
    ):
        torch.ones(1)
    assert prof.use_device is None
    assert len(prof.trace.events) > 0
    assert len(prof.trace.table("gpu")) == 0
