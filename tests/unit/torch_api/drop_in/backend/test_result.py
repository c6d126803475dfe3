"""Kineto's activities, over a trace."""

import json

from opscope.columns.schema import EventKind
from opscope.torch_api.drop_in.backend.result import ProfilerResult
from support.build_trace import ORIGIN_NS, build_trace, span


def activities(trace):
    trace = trace.with_metadata({"start_ns": ORIGIN_NS})
    return ProfilerResult(lambda: trace, {}).trace_activities()


def test_operators_and_annotations_have_ids_and_metadata():
    step, op = activities(
        build_trace(
            [
                span("mine", 0, 9, kind=EventKind.ANNOTATION),
                span("aten::mul", 2, 5, sequence_number=3),
            ]
        )
    )
    assert (step.type(), step.name(), step.duration()) == ("user_annotation", "mine", 9000)
    assert (op.type(), op.timestamp()) == ("cpu_op", ORIGIN_NS + 2000)
    assert op.correlation_id() == step.correlation_id() + 1
    said = json.loads("{" + op.metadata_json() + "}")
    assert said["Sequence number"] == 3 and said["Ev Idx"] == 1
    assert "Sequence number" not in step.metadata_json()
    assert op.linked_activity() is None and op.linked_correlation_id() == 0


def test_python_calls_have_python_ids():
    outer, inner = activities(
        build_trace(
            [
                span("outer", 0, 9, kind=EventKind.PYTHON_CALL),
                span("inner", 1, 5, kind=EventKind.PYTHON_CALL),
            ]
        )
    )
    assert outer.type() == "python_function" and outer.correlation_id() == 0
    assert json.loads("{" + inner.metadata_json() + "}")["Python id"] == 2
    assert json.loads("{" + outer.metadata_json() + "}")["Python parent id"] is None


def test_flows_join_forward_and_backward():
    forward, backward = activities(
        build_trace(
            [
                span("aten::mul", 0, 5, sequence_number=3),
                span("MulBackward0", 10, 15, sequence_number=3, thread="main", scope=1),
            ],
            links=[(0, 1)],
        )
    )
    assert forward.flow_id() == backward.flow_id() > 0
    assert (forward.flow_start(), backward.flow_start()) == (True, False)
    assert forward.flow_type() == backward.flow_type() == 1
