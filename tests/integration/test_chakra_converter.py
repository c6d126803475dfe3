"""Chakra's own converter takes the execution traces that opscope writes.

It is not on PyPI: https://github.com/mlcommons/chakra has to be installed.
"""

import pytest
import torch

import opscope

NEEDED = "mlcommons/chakra is not installed"
converter = pytest.importorskip("chakra.src.converter.pytorch_converter", reason=NEEDED)
protolib = pytest.importorskip("chakra.src.third_party.utils.protolib", reason=NEEDED)
definitions = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason=NEEDED)


def converted(path):
    """The nodes that it makes of a file, by name."""
    target = path.with_suffix(".chakra")
    converter.PyTorchConverter().convert(str(path), str(target), False)
    nodes = {}
    with open(target, "rb") as file:
        assert protolib.decodeMessage(file, definitions.GlobalMetadata())
        node = definitions.Node()
        while protolib.decodeMessage(file, node):
            nodes[node.name] = node
            node = definitions.Node()
    return nodes


def test_its_nodes_are_the_operators_with_their_times(tmp_path):
    model = torch.nn.Linear(64, 64)
    observer = opscope.ExecutionTraceObserver().register_callback(tmp_path / "observed.json")
    with opscope.profile(record_outputs=True, execution_trace_observer=observer) as profile:
        model(torch.randn(8, 64)).sum().backward()
    observer.unregister_callback()
    profile.trace.export("execution-trace", tmp_path / "exported.json")

    for name in ("observed.json", "exported.json"):
        nodes = converted(tmp_path / name)
        linear, adding = nodes["aten::linear"], nodes["aten::addmm"]
        assert adding.ctrl_deps == [linear.id] and adding.duration_micros > 0
        assert "[8, 64]" in linear.inputs.shapes.replace("(", "[")
        assert {"aten::sum", "AddmmBackward0"} <= set(nodes)
