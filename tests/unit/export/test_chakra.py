"""Chakra traces, decoded with Google's protobuf."""

import json

import pytest

from opscope import UsageError
from opscope.export.chakra import write_chakra
from opscope.trace.names import Names
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace
from support.build_trace import build_trace, kernel, span, tensor
from support.execution_traces import THREAD, named, nodes_of
from support.random_trace import random_trace
from support.read_chakra import assert_acyclic, attributes, read_chakra

COMP, METADATA, SEND, COLLECTIVE = 4, 1, 5, 7
STORED = {"impl": 0x100, "storage": 0x200, "storage_impl": 0x300}


@pytest.fixture
def written(tmp_path):
    """Writes a trace and reads it back: nodes by name, which has to be unique but for threads."""

    def write(trace):
        write_chakra(trace, tmp_path / "t.0.et")
        metadata, nodes = read_chakra(tmp_path / "t.0.et")
        assert_acyclic(nodes)
        by_name = {node.name: node for node in nodes.values()}
        assert len(by_name) == len(nodes) - [n.name for n in nodes.values()].count(THREAD) + 1
        return metadata, by_name

    return write


def test_nodes_have_the_execution_traces_ids_and_values(tmp_path, written):
    pytest.importorskip("torch")  # which tells operators' schemas
    trace = build_trace([
        span("outer", 0, 100, kind=EventKind.ANNOTATION),
        span("aten::mm", 10, 30, overload="", sequence_number=5, inputs=[tensor(2, 3, **STORED), 1],
             outputs=[tensor(2, 2, **STORED)]),
    ], metadata={"options": {"overloads": True}})  # fmt: skip
    trace.export("execution-trace", tmp_path / "t.json")
    expected = named(nodes_of(tmp_path / "t.json"), "aten::mm")

    node = written(trace)[1]["aten::mm"]

    assert node.id == expected["id"]
    assert list(node.ctrl_deps) == [expected["ctrl_deps"]]
    assert node.type == COMP
    assert json.loads(node.inputs.values) == expected["inputs"]["values"]
    assert json.loads(node.inputs.shapes) == expected["inputs"]["shapes"]
    assert json.loads(node.outputs.types) == expected["outputs"]["types"]
    assert attributes(node) == {
        "rf_id": 2, "fw_parent": 0, "seq_id": 5, "scope": 0, "tid": 1, "fw_tid": 0,
        "op_schema": "aten::mm(Tensor self, Tensor mat2) -> Tensor", "is_cpu_op": True,
    }  # fmt: skip


def test_a_node_takes_the_time_outside_the_nodes_in_it(written):
    _, nodes = written(build_trace([span("outer", 0, 100, inputs=[1]), span("inner", 20, 50)]))

    assert nodes["outer"].duration_micros == 70
    assert nodes["inner"].duration_micros == 30
    assert nodes["inner"].start_time_micros - nodes["outer"].start_time_micros == 20


def test_nodes_of_a_thread_wait_for_one_another_in_order(written):
    _, nodes = written(build_trace([
        span("a", 0, 100, inputs=[1]),
        span("b", 10, 20),
        span("x", 15, 90, "worker"),
        span("c", 30, 40),
        span("d", 200, 300),
    ]))  # fmt: skip

    assert list(nodes["b"].data_deps) == [nodes["a"].id]
    assert list(nodes["c"].data_deps) == [nodes["b"].id]
    assert list(nodes["d"].data_deps) == [nodes["c"].id]
    assert nodes["x"].data_deps[0] == nodes["x"].ctrl_deps[0]  # its thread


def test_data_made_on_another_thread_is_waited_for(written):
    _, nodes = written(build_trace([
        span("early", 0, 5, outputs=[tensor(2, **STORED)]),
        span("make", 10, 20, outputs=[tensor(2, **STORED)]),
        span("other", 12, 14, outputs=[tensor(2, storage=0x900)]),
        span("use", 30, 40, "worker", inputs=[tensor(2, **STORED)]),
        span("late", 50, 60, outputs=[tensor(2, **STORED)]),
    ]))  # fmt: skip

    assert nodes["make"].id in nodes["use"].data_deps
    assert not {nodes[n].id for n in ("early", "other", "late")} & set(nodes["use"].data_deps)


def test_device_activities_wait_for_their_launch_and_their_stream(written):
    trace = build_trace(
        [
            span("aten::mm", 0, 20, inputs=[1]),
            span("cudaLaunchKernel", 5, 6, kind=EventKind.RUNTIME_CALL),
            span("aten::relu", 30, 40),
            span("cudaLaunchKernel#2", 32, 33, kind=EventKind.RUNTIME_CALL),
            span("aten::item", 50, 90),
            span("cudaStreamSynchronize", 55, 80, kind=EventKind.RUNTIME_CALL),
            span("after", 100, 110),
        ],
        gpu=[
            kernel("gemm", 10, 40, launch=1, stream=7),
            kernel("relu", 41, 60, launch=3, stream=7),
            kernel("copy", 20, 30, launch=1, stream=9, kind=1),
            kernel("sync", 55, 80, kind=3),
        ],
    )

    _, nodes = written(trace)

    assert nodes["gemm"].ctrl_deps[0] == nodes["aten::mm"].id
    assert nodes["gemm"].data_deps[0] == nodes["aten::mm"].id
    assert list(nodes["relu"].data_deps) == [nodes["aten::relu"].id, nodes["gemm"].id]
    assert attributes(nodes["copy"]) == {"is_cpu_op": False, "stream": 9}
    assert "sync" not in nodes
    assert nodes["relu"].duration_micros == 19
    assert {nodes["relu"].id, nodes["copy"].id} <= set(nodes["after"].data_deps)


def test_collectives_are_told_from_computation(written):
    groups = {"process_groups": {"0xab": {"pg_name": "7", "pg_desc": "tp", "ranks": [0, 1]}}}
    said = {"Collective name": "allreduce", "dtype": "Half", "In msg nelems": 10,
            "Process Group Name": "7"}  # fmt: skip
    trace = build_trace(
        [
            span("c10d::allreduce_", 0, 20, inputs=[[tensor(4)]]),
            span("record_param_comms", 1, 19, keywords=said),
            span("cudaLaunchKernel", 5, 6, kind=EventKind.RUNTIME_CALL),
            span("c10d::send", 30, 40, inputs=[[tensor(3)], "group", 1, 5]),
            span("## process_group:init ##", 50, 51, kind=EventKind.ANNOTATION),
        ],
        gpu=[kernel("ncclDevKernel_AllReduce", 10, 40, launch=2)],
        metadata=groups,
    )

    metadata, nodes = written(trace)

    reduce = nodes["ncclDevKernel_AllReduce"]
    assert reduce.type == COLLECTIVE
    said = attributes(reduce)
    assert (said["comm_type"], said["comm_size"], said["pg_name"]) == (0, 20, "7")
    assert nodes["c10d::allreduce_"].type == nodes["record_param_comms"].type == COMP
    send = nodes["c10d::send"]
    assert send.type == SEND
    assert (attributes(send)["comm_dst"], attributes(send)["comm_tag"]) == (1, 5)
    assert nodes["## process_group:init ##"].type == METADATA
    assert json.loads(attributes(metadata)["process_groups"]) == {"7": [0, 1]}


def test_the_file_says_where_it_comes_from(written):
    trace = build_trace([span("f", 0, 1, inputs=[1])], metadata={"process_id": 42})

    metadata, _ = written(trace)

    said = attributes(metadata)
    assert said["schema"] == "1.1.1-chakra.0.0.4"
    assert said["pid"] == 42
    assert set(said) == {"schema", "pid", "time", "start_ts", "finish_ts"}


def test_names_that_are_not_utf8_can_be_decoded(written):
    trace = build_trace([span("f", 0, 1, inputs=[1])])
    names = Names(trace.names.offsets, trace.names.blob.replace(b"f", b"\xff"))
    trace = Trace({t: trace.table(t) for t in ("events", "scalars", "threads")}, names, {})

    assert "�" in written(trace)[1]


def test_a_trace_without_arguments_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no arguments"):
        write_chakra(build_trace("f 0..1"), tmp_path / "t.et")


@pytest.mark.parametrize("seed", range(40))
def test_any_trace_becomes_messages(tmp_path, seed):
    try:
        write_chakra(random_trace(seed), tmp_path / "t.et")
    except UsageError:
        return
    read_chakra(tmp_path / "t.et")


@pytest.mark.parametrize("seed", range(40))
def test_any_trace_becomes_an_execution_trace(tmp_path, seed):
    try:
        random_trace(seed).export("execution-trace", tmp_path / "t.json")
    except UsageError:
        return
    assert nodes_of(tmp_path / "t.json")
