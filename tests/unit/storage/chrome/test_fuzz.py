"""Whatever a file holds: a trace that keeps the schema's promises, or a TraceFormatError."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opscope import load_trace
from opscope.columns.validate import checked_trace
from opscope.errors import TraceFormatError

KEYS = ["ph", "ts", "dur", "pid", "tid", "name", "cat", "args", "id", "Input Dims", "Input type",
        "Input Strides", "Concrete Inputs", "Sequence number", "Fwd thread id", "External id",
        "Bytes", "Addr", "Device Type", "Device Id", "correlation", "grid", "block", "stream",
        "traceEvents", "baseTimeNanoseconds", "stray"]  # fmt: skip
CATEGORIES = ["cpu_op", "user_annotation", "python_function", "kernel", "cuda_runtime", "fwdbwd"]
NAMES = ["[memory]", "[OutOfMemory]", "thread_name", "process_name", "nn.Module: ", "f.py(1): g",
         "f.py(99999999999): g", "Python GC", "ProfilerStep#1", "ProfilerStep#99999999999",
         "aten::a.b", "thread 1 (x)"]  # fmt: skip
TYPES = ["float", "c10::Half", "TensorList", "Scalar", "ScalarList", ""]
WORDS = [*CATEGORIES, *NAMES, *TYPES, "\ud800", "-", "--1", "0.001", "1e400", "٣"]

integers = st.integers(-5, 300) | st.sampled_from(
    [2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**70, -(2**63), -(2**31)]
)
scalars = (
    st.none() | st.booleans() | st.sampled_from(WORDS) | st.text(max_size=3)
    | st.floats() | integers
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)
lists = st.lists(integers, max_size=3)
shapes = st.lists(lists | st.lists(lists, max_size=2) | values, max_size=3)
arguments = {
    "Input type": st.lists(st.sampled_from(TYPES) | values, max_size=3),
    "Input Dims": shapes, "Input Strides": shapes, "Concrete Inputs": shapes,
}  # fmt: skip
numbers = dict.fromkeys(
    ["Sequence number", "Fwd thread id", "External id", "Bytes", "Addr", "Device Type", "Device Id",
     "correlation", "device", "stream"], integers,
)  # fmt: skip


def event(phases, categories, names, args):
    """An event of one sort in which any field may be missing or hold something else."""
    return st.fixed_dictionaries(
        {"ph": st.sampled_from(phases), "ts": st.integers(0, 9) | scalars, "args": args},
        optional={
            "dur": st.integers(0, 9) | scalars, "id": integers, "name": names, "cat": categories,
            "pid": st.integers(0, 2) | values, "tid": st.integers(0, 2) | values,
        },
    )  # fmt: skip


events = (
    event("X", st.just("cpu_op"), st.sampled_from(NAMES), st.fixed_dictionaries(arguments))
    | event("iX", st.just("x"), st.sampled_from(["[memory]", "[OutOfMemory]"]),
            st.fixed_dictionaries({}, optional=numbers))
    | event("XXBEisfM", st.sampled_from(CATEGORIES) | values, st.sampled_from(NAMES) | values,
            st.fixed_dictionaries({}, optional={**arguments, **numbers, "grid": lists | values,
                "name": scalars, "stray": values}) | values)
)  # fmt: skip
files = st.dictionaries(st.sampled_from(KEYS), values).flatmap(
    lambda top: st.lists(events, max_size=12).map(lambda e: {**top, "traceEvents": e})
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "t.json"


def check(path):
    """The trace of a file, if it is one, keeps every promise and survives a round trip."""
    try:
        trace = load_trace(path)
    except TraceFormatError as error:
        assert str(path) in str(error)
        return
    checked_trace(trace, str(path))
    assert (trace.events["duration_ns"] >= 0).all()
    assert (trace.end_ns >= trace.events["start_ns"]).all()
    assert (np.diff(trace.table("tensors")["event"]) >= 0).all()
    trace.save(path.parent / "again")
    again = load_trace(path.parent / "again")
    assert len(again.events) == len(trace.events)
    assert again.metadata.keys() == trace.metadata.keys()


def one(**event):
    return {"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, **event}]}


@settings(max_examples=80, deadline=None)
@given(files)
@example(one(cat="cpu_op", args={"Input type": ["float"], "Input Dims": [[2, 2**63]]}))
@example(one(cat="cpu_op", args={"Input type": [[]], "Input Dims": 3}))
@example(one(cat="cpu_op", args={"Sequence number": 2**63, "Fwd thread id": 2**31}))
@example(one(name="[memory]", args={"Addr": -1, "Bytes": 2**63, "Device Id": 200}))
@example(one(name="[memory]", args={"Addr": 2**64}))
@example(one(cat="kernel", args={"grid": [2**63], "stream": 2**31}))
@example(one(pid=[], tid={}))
@example({**one(ts=2**60 // 1000, dur=2**60 // 1000), "baseTimeNanoseconds": 2**61})
def test_any_events(path, content):
    path.write_text(json.dumps(content))
    check(path)


@settings(max_examples=60, deadline=None)
@given(content=files, data=st.data())
def test_json_with_a_hole_or_noise_in_it(path, content, data):
    raw = bytearray(json.dumps(content).encode())
    position = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw = raw[:position]
    else:
        raw[position : position + 1] = data.draw(st.binary(max_size=6))
    path.write_bytes(raw)
    check(path)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
@example(b"\x1f\x8b\x08\x00")
@example(b"\x00\x00\xfe\xff")
def test_any_bytes(path, content):
    path.write_bytes(content)
    check(path)
