"""Several processes as one trace: one clock, one order, and nothing mixed up."""

import json

import numpy as np

import opscope
from opscope.api.job import Job
from opscope.columns.schema import RecordScope
from opscope.export.all_formats import export_trace
from opscope.jobs.merged_trace import SOURCE
from opscope.report.device_section import device_section
from opscope.storage.partition import Partition
from opscope.timeline.period import Which
from opscope.timeline.tree.links import forward_backward_links
from support.build_trace import ORIGIN_NS, allocation, build_trace, kernel, span, tensor
from support.job_of_collectives import rank_trace
from support.read_perfetto import read_perfetto
from support.recorded import names

BACKWARD = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}


def save(folder, process, spans, ahead_ns=0, host="here", **more):
    """A process whose wall clock is ahead of the first one's by so much."""
    metadata = {
        "process_id": process,
        "host_name": host,
        "start_ns": ORIGIN_NS + ahead_ns,
        "end_ns": ORIGIN_NS + ahead_ns + 100_000,
        "end_monotonic_ns": 1_000_000_000,
    }
    moved = [span(name, a + ahead_ns / 1e3, b + ahead_ns / 1e3, **kw) for name, a, b, kw in spans]
    build_trace(moved, metadata=metadata, **more).save(folder, process=process)


def test_events_of_all_are_in_order_of_start_with_their_parents(tmp_path):
    save(tmp_path, 1, [("a", 0, 50, {}), ("b", 20, 30, {})])
    save(tmp_path, 2, [("c", 10, 40, {}), ("d", 25, 35, {})])
    trace = Job(tmp_path).together()
    assert names(trace) == ["a", "c", "b", "d"]
    assert trace.events["parent"].tolist() == [-1, -1, 0, 1]
    process = trace.table("threads")["process_id"][trace.events["thread"]]
    assert process.tolist() == [1, 2, 1, 2]


def test_devices_are_not_added_up_by_their_numbers(tmp_path):
    for process in (1, 2):
        save(tmp_path, process, [("a", 0, 50, {})], gpu=[kernel("k", 10, 20, launch=-1)])
    job = Job(tmp_path)
    found = job.together().device_use("all")
    assert found.devices == () and "--process" in found.notes[0]
    section = device_section(job.together(), Which.ALL)
    assert section["devices"] == [] and "--process" in section["notes"][0]
    assert len(job[Partition("process", 1)].device_use("all").devices) == 1


def test_a_wall_clock_that_was_set_moves_nothing(tmp_path):
    save(tmp_path, 1, [("a", 0, 50, {})])
    save(tmp_path, 2, [("b", 10, 40, {})], ahead_ns=3_600_000_000_000)
    trace = Job(tmp_path).together()
    assert np.diff(trace.events["start_ns"]).tolist() == [10_000]
    assert trace.metadata["end_ns"] - trace.metadata["start_ns"] == 100_000


def test_processes_of_other_machines_keep_their_times(tmp_path):
    save(tmp_path, 1, [("a", 0, 50, {})])
    save(tmp_path, 2, [("b", 10, 40, {})], ahead_ns=5_000, host="there")
    trace = Job(tmp_path).together()
    assert np.diff(trace.events["start_ns"]).tolist() == [15_000]


def test_a_backward_of_one_process_does_not_belong_to_a_forward_of_another(tmp_path):
    pair = [
        ("aten::mm", 0, 10, {"sequence_number": 5}),
        ("MmBackward0", 20, 30, {"sequence_number": 5, **BACKWARD}),
    ]
    save(tmp_path, 1, pair)
    save(tmp_path, 2, [(name, a + 2, b + 2, more) for name, a, b, more in pair])
    trace = Job(tmp_path).together()
    links = forward_backward_links(trace)
    owner = trace.table("threads")["process_id"][trace.events["thread"]]
    assert len(links) == 2
    assert owner[links.source].tolist() == owner[links.target].tolist()


def test_tensors_of_two_processes_are_never_the_same(tmp_path):
    for process in (1, 2):
        one = tensor(2, 3, tensor_id=4)
        save(tmp_path, process, [("aten::mm", process, 10, {"inputs": [one]})])
    ids = Job(tmp_path).together().table("tensors")["tensor_id"]
    assert len(set(ids.tolist())) == 2


def test_memory_is_left_out_and_the_ledger_says_so(tmp_path):
    save(tmp_path, 1, [("a", 0, 50, {})], allocations=[allocation(12, 32, address=0x10)])
    save(tmp_path, 2, [("b", 0, 50, {})])
    trace = Job(tmp_path).together()
    assert len(trace.table("allocations")) == 0
    said = trace.ledger[SOURCE]
    assert said["shown together"] == 2
    assert [value for what, value in said.items() if "allocations" in what] == [1]


def together_with_collectives(tmp_path):
    for rank, late in enumerate([0, 40, 20]):
        calls = [("allreduce_", (), at + late, at + late + 10, at + 100) for at in (0, 200, 400)]
        rank_trace(range(3), calls).save(tmp_path, rank=rank)
    return Job(tmp_path).together()


def test_arrows_are_in_chrome_and_perfetto_files(tmp_path):
    trace = together_with_collectives(tmp_path / "job")
    export_trace(trace, "chrome", tmp_path / "trace.json")
    flows = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
             if e.get("cat") == "collective"]  # fmt: skip
    ends = {kind: {flow["id"] for flow in flows if flow["ph"] == kind} for kind in "sf"}
    assert ends["s"] == ends["f"] and len(ends["s"]) == 6
    begin = {flow["id"]: flow["ts"] for flow in flows if flow["ph"] == "s"}
    assert all(begin[flow["id"]] <= flow["ts"] for flow in flows if flow["ph"] == "f")
    read = opscope.load(tmp_path / "trace.json")
    assert [len(trace.events) for _, trace in read.traces()] == [
        len(one.events) for _, one in Job(tmp_path / "job").traces()
    ]
    export_trace(trace, "perfetto", tmp_path / "trace.pftrace")
    slices = read_perfetto(tmp_path / "trace.pftrace").slices
    assert sum(len(one.ends_flows) for one in slices) == 6
