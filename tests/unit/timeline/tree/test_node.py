"""Tree nodes: made lazily, complete in detail, walked without recursion."""

from enum import Enum

import numpy as np
import pytest

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import AllocationAction, RecordScope, ScalarType
from opscope.timeline.tree.arguments import Scalar, TensorRecord
from opscope.timeline.tree.node import MemoryDetail, NodeKind, OperatorDetail, Tree
from support.build_trace import allocation, build_trace, span, tensor


def test_memory_events_are_children_of_the_span_they_happened_in():
    trace = build_trace(
        [span("aten::add", 0, 100), span("aten::empty", 10, 20), span("aten::fill_", 40, 50)],
        allocations=[
            allocation(15, 64, address=0xA0, tensor_id=3, allocation_id=2),
            allocation(30, -64, address=0xA0),
            allocation(200, 32, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )
    tree = Tree(trace)

    names = [(node.name, node.kind.value) for node in tree.depth_first()]

    assert names == [
        ("aten::add", "operator"),
        ("aten::empty", "operator"),
        ("[memory]", "allocation"),
        ("[memory]", "allocation"),
        ("aten::fill_", "operator"),
        ("[OutOfMemory]", "out_of_memory"),
    ]
    memory = tree.node(1).children[0]
    assert memory.parent == tree.node(1)
    assert (memory.duration_ns, memory.correlation_id, memory.unfinished) == (0, 0, False)
    assert memory.detail == MemoryDetail(0xA0, 64, 64, 0, 0, -1, 2, 3)


def test_operators_carry_their_arguments():
    trace = build_trace([
        span(
            "aten::cat", 0, 10,
            overload="dim",
            sequence_number=9,
            scope=RecordScope.FUNCTION,
            inputs=[[tensor(2, 3), tensor(4, 3)], 1, None, tensor(5, dtype="int64", tensor_id=8)],
            outputs=[tensor(6, 3)],
            keywords={"out": tensor(1), "flag": True},
        ),
    ])  # fmt: skip

    detail = Tree(trace).roots[0].detail

    assert isinstance(detail, OperatorDetail)
    assert (detail.overload, detail.sequence_number, detail.scope) == ("dim", 9, 0)
    pieces, dim, nothing, index = detail.inputs
    assert isinstance(pieces, list) and [piece.sizes for piece in pieces] == [(2, 3), (4, 3)]
    assert dim == Scalar(ScalarType.INT, 1)
    assert nothing == Scalar(ScalarType.NONE, None)
    assert isinstance(index, TensorRecord)
    assert (index.dtype, index.tensor_id, index.strides) == ("int64", 8, (1,))
    assert isinstance(detail.outputs[0], TensorRecord) and detail.outputs[0].sizes == (6, 3)
    assert detail.keywords["flag"] == Scalar(ScalarType.BOOL, True)


def test_walking_100_000_levels():
    depth = 100_000
    columns = {"parent": np.arange(-1, depth - 1), "name": np.zeros(depth, dtype=np.int32)}
    tree = Tree(Trace({"events": columns}, Names.from_strings(["f"])))

    assert sum(1 for _ in tree.depth_first()) == depth
    *_, last = tree.depth_first()
    assert last.row == depth - 1 and last.children == []


def test_a_kind_that_no_code_names_is_the_same_whenever_it_is_requested(monkeypatch):
    monkeypatch.setattr("opscope.timeline.tree.node.EventKind", Enum("EventKind", ["WALTZ"]))
    kind = NodeKind("waltz")
    assert kind is NodeKind("waltz") and kind.name == "WALTZ" and kind != NodeKind.OPERATOR
    with pytest.raises(ValueError, match="tango"):
        NodeKind("tango")
