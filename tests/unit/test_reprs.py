"""What prints at a prompt: one line that says what it is, never screens of numbers."""

import importlib.resources

import pytest
from torch.profiler import ProfilerActivity

import opscope
from opscope.columns.schema import EventKind
from opscope.errors import UnknownNameError, UsageError
from support.build_trace import allocation, build_trace, span


@pytest.fixture
def trace():
    return build_trace(
        [
            span("train", 0, 200, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "train")),
            span("aten::mm", 0, 90),
            span("gc", 100, 150, kind=EventKind.GC_PAUSE),
            span("gc", 150, 200, kind=EventKind.GC_PAUSE),
        ],
        allocations=[allocation(35, 4096)],
    )


def test_a_trace(trace):
    assert repr(trace).startswith("<Trace: 4 events in 0.0002 s; also ")
    assert "allocations" in repr(trace)
    assert repr(build_trace([])).startswith("<Trace: 0 events in 0 s")


def test_results(trace):
    found = repr(trace.findings())
    assert found.startswith("<Findings: 1 found, ")
    assert "<Finding garbage-collections: high, saves 50%, at train.py:3>" in found
    peak = trace.peak_memory()
    assert repr(peak).startswith("<PeakMemory of cpu: 4.00 KiB")
    assert repr(peak.blocks) == "<AliveBlocks: 1 blocks, 4.00 KiB>"
    assert "4.00 KiB in use on cpu" in peak._repr_html_()
    (finding,) = trace.findings()
    assert "train.py:3" in finding._repr_html_() and finding.advice[:9] in finding._repr_html_()


def test_a_profile_says_where_it_is():
    profile = opscope.profile(record_shapes=True)
    assert repr(profile) == "<opscope.profile: not started; record_shapes>"
    profile.start()
    assert repr(profile) == "<opscope.profile: recording; record_shapes>"
    profile.stop()
    assert repr(profile) == "<opscope.profile: recorded, see .trace; record_shapes>"


@pytest.mark.parametrize(
    ("name", "meant"), [("duration", "duration_ns"), ("parents", "parent"), ("start", "start_ns")]
)
def test_the_column_that_was_meant(trace, name, meant):
    with pytest.raises(UnknownNameError) as raised:
        trace.events[name]
    assert isinstance(raised.value, KeyError)
    said = str(raised.value)
    assert said.startswith(f"The table events has no column {name!r}. Did you mean {meant!r}?")
    assert "duration_ns, " in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"schedule": 5}, "schedule=5 cannot be called. Pass a function from the number of a step"),
        ({"on_trace_ready": "x"}, "on_trace_ready='x' cannot be called. Pass a function that"),
        ({"activities": "cpu"}, "activities='cpu' is not a list. Pass one of ProfilerActivity's"),
        ({"activities": ProfilerActivity.CPU}, "is not a list"),
        ({"activities": ["cpu"]}, "got 'cpu'. Use for example [ProfilerActivity.CPU]"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments, said):
    with pytest.raises(UsageError) as raised:
        opscope.profile(**arguments)
    assert said in str(raised.value)


def test_type_checkers_read_the_package():
    assert importlib.resources.files("opscope").joinpath("py.typed").is_file()
