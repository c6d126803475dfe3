"""Execution traces of traces that a test can draw."""

import json

import numpy as np
import pytest

from opscope import UsageError
from opscope.columns.schema import EventKind, RecordScope
from opscope.export.execution_trace import whole_file, write_execution_trace
from opscope.export.execution_trace_nodes import NodeWriter
from support.build_trace import build_trace, span
from support.execution_traces import THREAD, named, names_of, nodes_of


@pytest.fixture
def written(tmp_path):
    """Writes a trace, with arguments or without, and reads its nodes back."""

    def write(trace, **options):
        path = tmp_path / "trace.et.json"
        blocks = whole_file({}, NodeWriter(**options).blocks(trace), 0, base_ns=None)
        path.write_bytes(b"".join(map(bytes, blocks)))
        return nodes_of(path)

    return write


def test_spans_that_are_no_operators_leave_their_children_to_what_is_around_them(written):
    trace = build_trace(
        [
            span("outer", 0, 100, kind=EventKind.ANNOTATION),
            span("call", 10, 90, kind=EventKind.PYTHON_CALL),
            span("module", 20, 80, kind=EventKind.MODULE_CALL),
            span("aten::mm", 30, 40),
            span("gc", 50, 60, kind=EventKind.GC_PAUSE),
            span("lonely", 200, 300, kind=EventKind.PYTHON_CALL),
            span("aten::add", 210, 220),
        ]
    )

    nodes = written(trace)

    assert names_of(nodes) == ["outer", "aten::mm", "aten::add"]
    assert named(nodes, "aten::mm")["ctrl_deps"] == named(nodes, "outer")["id"]
    assert named(nodes, "aten::add")["ctrl_deps"] == named(nodes, THREAD)["id"]
    assert [named(nodes, n)["attributes"]["rf_id"] for n in names_of(nodes)] == [1, 4, 7]
    assert named(nodes, "outer")["attributes"]["scope"] == RecordScope.USER_SCOPE


def test_work_handed_to_another_thread_belongs_to_who_asked(written):
    trace = build_trace(
        [
            span("c10d::allreduce_", 0, 100),
            span("gloo:all_reduce", 50, 90, "worker", kind=EventKind.ANNOTATION),
        ]
    )
    launch = {"launch_thread": np.array([0, 1], dtype=np.int32)}
    trace = trace.with_tables({"events": trace.events.replaced(launch)})

    node = named(written(trace), "gloo:all_reduce")

    assert node["attributes"]["tid"] == 1
    assert node["ctrl_deps"] == named(written(trace), "c10d::allreduce_")["id"]


def test_the_file_says_what_torchs_does(tmp_path):
    trace = build_trace(
        [span("f", 0, 1, inputs=[1])], metadata={"process_id": 42, "start_ns": 5 * 10**15}
    )
    write_execution_trace(trace, tmp_path / "t.json", with_times=False)

    document = json.loads((tmp_path / "t.json").read_text())

    assert list(document) == ["schema", "pid", "time", "start_ts", "nodes", "finish_ts"]
    assert document["schema"] == "1.1.1-chakra.0.0.4"
    assert document["pid"] == 42
    assert document["start_ts"] == 5 * 10**9


def test_a_trace_without_arguments_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"2 operators but no arguments.*record_outputs=True"):
        write_execution_trace(build_trace("f 0..1\ng 2..3"), tmp_path / "t.json")
    assert not list(tmp_path.iterdir())
