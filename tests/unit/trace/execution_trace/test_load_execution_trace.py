"""Nodes become a Trace, and the Trace the same nodes again."""

import copy
import json
import random

import numpy as np
import pytest

import opscope
from opscope import OpscopeError
from opscope.export.execution_trace import whole_file, write_execution_trace
from opscope.export.execution_trace_nodes import NodeWriter
from opscope.trace.schema import EventKind, Role, ScalarType
from support.build_trace import build_trace, span, tensor
from support.execution_traces import PROCESS, THREAD, nodes_of

STORED = {"impl": 0x100, "storage": 0x200, "storage_impl": 0x300}
EMPTY = {"values": [], "shapes": [], "types": [], "strides": []}


def node(number, name, parent, *, inputs=EMPTY, outputs=EMPTY, **attributes):
    values = {"rf_id": number, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0} | attributes
    return {
        "id": number, "name": name, "ctrl_deps": parent, "inputs": inputs, "outputs": outputs,
        "attrs": [{"name": n, "type": "uint64", "value": v} for n, v in values.items()],
    }  # fmt: skip


ROOTS = [node(1, PROCESS, 1), node(2, THREAD, 1)]


@pytest.fixture
def load(tmp_path):
    """Loads nodes as a file of torch's: in any order, without times."""

    def call(nodes, **header):
        path = tmp_path / "trace.json"
        document = {"schema": "1.1.1-chakra.0.0.4", "time": "2026-01-02 03:04:05", **header}
        path.write_text(json.dumps({**document, "nodes": nodes}))
        return opscope.load(path)

    return call


def side(*items):
    values, shapes, types, strides = (list(part) for part in zip(*items, strict=True))
    return {"values": values, "shapes": shapes, "types": types, "strides": strides}


def test_nodes_are_events_in_order_of_their_ids(load):
    trace = load([
        node(5, "aten::mm", 3, op_schema="aten::mm.x(Tensor a) -> Tensor", rf_id=9, seq_id=4),
        node(4, "step", 2, scope=7),
        node(3, "aten::linear", 2, op_schema="aten::linear(Tensor a) -> Tensor"),
        node(8, "MmBackward0", 2, scope=1, tid=2, fw_tid=1),
        *ROOTS,
    ])  # fmt: skip
    events = trace.events

    assert [trace.event_name(i) for i in range(4)] == [
        "aten::linear", "step", "aten::mm", "MmBackward0"
    ]  # fmt: skip
    assert list(events["parent"]) == [-1, -1, 0, -1]
    assert list(events["kind"]) == [EventKind.OPERATOR, EventKind.ANNOTATION, 0, 0]
    assert [trace.names[row] for row in events["overload"]] == ["", "", "x", ""]
    assert list(events["sequence_number"]) == [-1, -1, 4, -1]
    assert list(events["record_function_id"]) == [3, 4, 9, 8]
    assert list(events["forward_thread"]) == [0, 0, 0, 1]
    assert list(trace.table("threads")["torch_thread_id"][events["thread"]]) == [1, 1, 1, 2]
    assert trace.metadata["operator_schemas"]["aten::mm.x"] == "aten::mm.x(Tensor a) -> Tensor"


def test_nodes_without_times_are_put_one_after_another(load):
    trace = load([*ROOTS, node(3, "a", 2), node(4, "b", 3), node(5, "c", 4), node(6, "d", 2)])
    start = trace.events["start_ns"]

    assert list(start - start[0]) == [0, 1000, 2000, 3000]
    assert list(trace.events["duration_ns"]) == [3000, 2000, 1000, 1000]
    assert trace.metadata["has_times"] is False
    assert start[0] == 1767323045 * 10**9


def test_times_are_read_where_there_are_some(load):
    timed = [
        node(3, "a", 2) | {"ts": 1.5, "inclusive_dur": 10.25},
        node(4, "b", 3) | {"ts": 2.0, "inclusive_dur": 3},
    ]
    trace = load([*ROOTS, *timed], baseTimeNanoseconds=10**18)

    assert list(trace.events["start_ns"]) == [10**18 + 1500, 10**18 + 2000]
    assert list(trace.events["duration_ns"]) == [10250, 3000]
    assert trace.metadata["has_times"] is True


def test_tensors_keep_their_identity_shape_and_type(load):
    values = side(
        ([7, 8, 2, 6, 4, "cuda:1"], [2, 3], "Tensor(float)", [3, 1]),
        ([9, 0, 0, 0, 0, ""], [], "Tensor(long int)", []),
        ([10, 0, 0, 0, 0, ""], [2, 2], "Tensor(float)", [0, 0]),
    )
    tensors = load([*ROOTS, node(3, "f", 2, inputs=values)]).table("tensors")

    assert list(tensors["impl"]) == [7, 9, 10]
    assert list(tensors["storage"]) == [8, 0, 0]
    assert list(tensors["storage_offset"]) == [2, 0, 0]
    assert list(tensors["dtype"]) == [6, -1, 6]
    assert list(tensors["unsized_dtype"]) == [-1, 4, -1]
    assert [tensors["device_type"][0], tensors["device_index"][0]] == [1, 1]
    assert [tensors.lists("sizes")[i] for i in range(3)] == [[2, 3], [], [2, 2]]
    assert [tensors.lists("strides")[i] for i in range(3)] == [[3, 1], [], []]


def test_lists_and_tuples_keep_their_tensors(load):
    one = [7, 8, 0, 2, 4, "cpu"]
    values = side(
        ([one, "<None>"], [[2], []], "GenericList[Tensor(float),None]", [[1], []]),
        ([one, 2.5], [[2], []], "Tuple[Tensor(float),Double]", [[1], []]),
    )
    trace = load([*ROOTS, node(3, "f", 2, inputs=values)])
    tensors, scalars = trace.table("tensors"), trace.table("scalars")

    assert list(tensors["role"]) == [Role.INPUT, Role.INPUT, Role.INPUT_PART]
    assert list(tensors["element"]) == [0, 1, 0]
    assert list(tensors["layout"]) == [0, -1, 0]
    assert trace.names[scalars["value"][0]] == '{"Tuple": ["Tensor", {"Double": 2.5}]}'
    assert scalars["type"][0] == ScalarType.OTHER


def test_parents_that_make_no_sense_are_counted_and_left_out(load):
    trace = load([*ROOTS, node(3, "a", 5), node(4, "b", 4), node(5, "c", 99), node(5, "d", 3)])

    assert list(trace.events["parent"]) == [-1, -1, -1, 0]
    assert trace.ledger["import"] == {
        "nodes in the file": 6,
        "parents that are not in the file": 1,
        "parents that begin after their children": 2,
        "ids given twice": 1,
    }


def test_nodes_without_a_name_or_id_are_counted_and_left_out(load):
    trace = load([*ROOTS, {"id": 3}, {"name": "x"}, {"id": -4, "name": "x"}, node(5, "a", 2)])

    assert len(trace.events) == 1
    assert trace.ledger["import"]["dropped: no name or id"] == 3


def test_files_of_torch_before_2_3_are_read(load):
    old = {
        "name": "aten::add", "id": 3, "rf_id": 5, "parent": 2, "fw_parent": 0, "seq_id": 7,
        "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "aten::add.Tensor(Tensor a) -> Tensor",
        "inputs": [[4, 5, 0, 2, 4, "cpu"], 1], "input_shapes": [[2], []],
        "input_types": ["Tensor(float)", "Int"], "outputs": [], "output_shapes": [],
        "output_types": [],
    }  # fmt: skip
    trace = load([*ROOTS, old], schema="1.0.1")

    assert trace.events["sequence_number"][0] == 7
    assert trace.names[trace.events["overload"][0]] == "Tensor"
    assert trace.table("tensors").lists("sizes")[0] == [2]
    assert trace.names[trace.table("scalars")["value"][0]] == "1"


def test_collectives_keep_what_they_moved(load):
    trace = load([
        *ROOTS,
        node(3, "record_param_comms", 2, collective_name="allreduce", pg_name="0",
             in_msg_nelems=12, in_split_size=[2, 2]),
    ])  # fmt: skip
    scalars = trace.table("scalars")

    said = {trace.names[k]: trace.names[v] for k, v in zip(
        scalars["keyword"], scalars["value"], strict=True)}  # fmt: skip
    assert said == {
        "Collective name": "allreduce", "Process Group Name": "0", "In msg nelems": "12",
        "In split size": "[2, 2]",
    }  # fmt: skip


def a_trace():
    nested = '{"Tuple":["Tensor",{"Int":2},{"GenericList":["Tensor"]}]}'
    trace = build_trace([
        span("step", 0, 100, kind=EventKind.ANNOTATION, inputs=["a text"]),
        span("aten::add", 1, 20, overload="Tensor", sequence_number=3,
             inputs=[tensor(2, 3, **STORED), [tensor(4, impl=1, storage=2, storage_impl=2)],
                     1, True, None, 2.5, float("inf"), [1, 2], [0.5], [], nested],
             outputs=[tensor(2, 3, dtype="bfloat16", device="cuda:1", **STORED)]),
        span("AddBackward0", 30, 40, "engine", scope=1, sequence_number=3, forward_thread=1),
    ])  # fmt: skip
    scalars = trace.table("scalars")
    columns = {c.name: np.array(scalars[c.name]) for c in scalars.schema.columns}
    row = int(np.flatnonzero(columns["value"] == trace.names.find(nested))[0])
    columns["type"][row] = ScalarType.OTHER
    tensors = trace.table("tensors")
    parts = build_trace([span("x", 0, 1, inputs=[[tensor(7, **STORED), tensor(8, **STORED)]])])
    added = parts.table("tensors")
    merged = {}
    for column in tensors.schema.columns:
        if column.dtype.startswith("list"):
            a, b = tensors.lists(column.name), added.lists(column.name)
            offsets = np.concatenate([a.offsets, b.offsets[1:] + a.offsets[-1]])
            merged[column.name] = type(a)(offsets, np.concatenate([a.values, b.values]))
        else:
            merged[column.name] = np.concatenate([tensors[column.name], added[column.name]])
    merged["event"][-2:] = 1
    merged["argument"][-2:] = 10
    merged["role"][-2:] = Role.INPUT_PART
    tables = {"events": trace.events, "threads": trace.table("threads")}
    return type(trace)({**tables, "tensors": merged, "scalars": columns}, trace.names, {})


@pytest.mark.parametrize("with_times", [True, False])
def test_writing_what_was_read_gives_the_same_nodes(tmp_path, with_times):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    write_execution_trace(a_trace(), first, with_times=with_times)

    opscope.load(first).export("execution-trace", second)

    assert nodes_of(second) == nodes_of(first)
    assert any("Tuple[Tensor(float),Int" in str(n["inputs"]["types"]) for n in nodes_of(second))


ODD = [None, True, -1, 1e308, float("inf"), 2**70, -(2**70), "x", "", [], {}, [[]], [[[1]]],
       {"a": 1}, "GenericList[Tensor(float)", "Tensor(", 3.5, [None] * 7, "\ud800"]  # fmt: skip


def mutated(document, chance):
    document = copy.deepcopy(document)
    for _ in range(chance.randint(1, 6)):
        at = document
        while isinstance(at, dict | list) and at:
            key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
            if chance.random() < 0.25 or not isinstance(at[key], dict | list):
                at[key] = copy.deepcopy(chance.choice(ODD))
                break
            at = at[key]
    return document


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_file_holds_is_read_or_refused(tmp_path, seed):
    chance = random.Random(seed)
    path = tmp_path / "t.json"
    document = b"".join(map(bytes, whole_file({}, NodeWriter().blocks(a_trace()), 0, base_ns=0)))
    for _ in range(5):
        content = json.dumps(mutated(json.loads(document), chance))
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            trace = opscope.load(path)
            trace.export("execution-trace", tmp_path / "out.json")
            json.loads((tmp_path / "out.json").read_text())
            trace.export("chakra", tmp_path / "out.et")
        except OpscopeError:
            continue
