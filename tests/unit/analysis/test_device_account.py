"""Replayed kernels, and what was going on when their nodes were captured."""

from __future__ import annotations

import numpy as np

from opscope.analysis.device_account import attribute_graphs
from opscope.api.trace import Trace
from opscope.columns.names import Names


def graph_trace(graph_node: list[int], duration_ns: list[int]) -> Trace:
    nodes = {"node": [5, 6], "operator": [0, 1], "module": [2, -1]}
    tables = {
        "gpu": {"graph_node": graph_node, "duration_ns": duration_ns},
        "gpu_graph_nodes": {name: np.array(values) for name, values in nodes.items()},
    }
    return Trace(tables, Names.from_strings(["aten::mm", "aten::add", "Net/Linear_0"]), {})


def test_every_replay_counts_for_what_was_captured():
    graphs = attribute_graphs(graph_trace([5, 6, 5, 0], [10, 5, 12, 100]))

    assert [(o.operator, o.module, o.kernels, o.device_ns) for o in graphs.operators] == [
        ("aten::mm", "Net/Linear_0", 2, 22),
        ("aten::add", "", 1, 5),
    ]
    assert (graphs.kernels, graphs.device_ns, graphs.share) == (3, 27, 1.0)


def test_the_share_says_what_is_unknown():
    graphs = attribute_graphs(graph_trace([5, 99], [30, 10]))

    assert graphs.share == 0.75
    assert "75.0% of their time attributed" in graphs.describe()
    assert "captured without a recording" in graphs.describe()


def test_no_graph_is_said():
    graphs = attribute_graphs(graph_trace([0], [10]))

    assert graphs.describe() == "no work in CUDA graphs"
    assert graphs.share == 1.0
