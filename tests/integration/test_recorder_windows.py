"""Recordings that overlap, pause, start at odd moments, lack memory, or come by the thousand."""

import gc

import numpy as np
import pytest
import torch

import opscope
from opscope import _native
from opscope.errors import InsufficientMemoryError
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from support.recorded import names, parents, record


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = _native.statistics()["windows"]
    yield
    gc.collect()
    assert _native.statistics()["wanted"] == 0
    assert _native.statistics()["windows"] <= before
    assert not torch.autograd._profiler_enabled()
    assert torch.autograd.profiler._is_profiler_enabled is False


def test_many_recordings_at_once_with_different_options():
    kinds = [
        RecordingOptions(gc_pauses=False),
        RecordingOptions(gc_pauses=False, shapes=True),
        RecordingOptions(gc_pauses=False, operators=False),
        RecordingOptions(gc_pauses=False, annotations=False, memory=True),
        RecordingOptions(gc_pauses=False, overloads=True),
        RecordingOptions(gc_pauses=False, outputs=True, shapes=True),
    ]
    recordings = [Recording(options) for options in kinds * 5]
    for recording in recordings:
        recording.start()
    with opscope.record_function("annotated"):
        torch.ones(2) + 1
    for recording in recordings[::2] + recordings[1::2]:
        recording.stop()
    expected = set(names(recordings[0].trace))
    for recording, options in zip(recordings, kinds * 5, strict=True):
        trace = recording.trace
        recorded = set(names(trace))
        assert ("annotated" in recorded) == options.annotations
        assert ("aten::add" in recorded) == options.operators
        assert (len(trace.table("tensors")) > 0) == options.shapes
        assert (len(trace.table("allocations")) > 0) == options.memory
        assert (set(np.unique(trace.events["overload"])) != {-1}) == options.overloads
        assert (1 in trace.table("tensors")["role"]) == options.outputs
        assert recorded <= expected


def test_an_object_is_started_and_stopped_twice_and_used_again():
    prof = opscope.profile()
    prof.stop()
    for factory in (torch.ones, torch.zeros):
        prof.start()
        factory(1)
        prof.start()
        torch.full((1,), 1)
        prof.stop()
        prof.stop()
        assert {f"aten::{factory.__name__}", "aten::full"} <= set(names(prof.trace))
    assert "aten::ones" not in names(prof.trace)


def test_stopping_inside_a_span_and_starting_in_it():
    prof = opscope.profile()
    with opscope.record_function("around"):
        prof.start()
        with opscope.record_function("cut"):
            torch.ones(1)
            prof.stop()
            torch.zeros(1)
    trace = prof.trace
    assert parents(trace)["aten::ones"] == "cut" and parents(trace)["cut"] == "around"
    assert trace.events["unfinished"][names(trace).index("around")]
    assert trace.events["unfinished"][names(trace).index("cut")]
    assert "aten::zeros" not in names(trace)
    assert parents(record(lambda: torch.ones(1)))["aten::ones"] == ""


def test_toggling_leaves_a_gap():
    cpu = [torch.profiler.ProfilerActivity.CPU]
    prof = opscope.profile()
    with prof:
        torch.ones(1)
        prof.toggle_collection_dynamic(False, cpu)
        torch.zeros(1)
        prof.toggle_collection_dynamic(False, cpu)
        prof.toggle_collection_dynamic(True, cpu)
        torch.full((1,), 1)
    assert "aten::zeros" not in names(prof.trace)
    assert {"aten::ones", "aten::full"} <= set(names(prof.trace))
    prof.toggle_collection_dynamic(True, cpu)


# -- Memory ----------------------------------------------------------------------------------------


@pytest.fixture
def small_budget():
    """No memory beyond what the recorder has already."""
    _native.set_budget(0)
    yield
    _native.set_budget(2**62)


def test_a_recorder_without_memory_counts_what_it_loses_and_harms_nothing(small_budget):
    with opscope.profile(record_shapes=True, profile_memory=True) as prof:
        total = 0
        for _ in range(20_000):
            with opscope.record_function("step"):
                total += int(torch.tensor(1) + 0)
    assert total == 20_000
    ledger = prof.trace.ledger
    for source in ("events", "allocations"):
        counts = ledger[source]
        assert counts["dropped: memory budget"] > 0
        assert counts["requested"] == counts["recorded"] + counts["dropped: memory budget"]
    assert ledger["events"]["recorded"] == len(prof.trace.events)
    # Steps themselves and what ran in them, all counted.
    per_step = ledger["events"]["requested"] / 20_000
    assert per_step == pytest.approx(round(per_step), abs=0.01)
    del prof
    _native.set_budget(2**62)
    trace = record(lambda: torch.ones(1))
    assert trace.ledger["events"]["dropped: memory budget"] == 0
    assert parents(trace)["aten::ones"] == ""


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def cycle(prof):
    with prof:
        torch.ones(3).add_(1)
        with opscope.record_function("left open"):
            pass


# A window that other threads appended to at the wrong moment may have taken a block more than any
# before. What leaks takes one for every window.
GROWN_BYTES = 10 << 16


def memory_growth(cycles, make, use):
    held = opscope.record_function("open all the while")
    held.__enter__()
    try:
        for i in range(cycles):
            if i == cycles // 4:
                gc.collect()
                before = resident_bytes(), _native.statistics()["mapped_bytes"]
            prof = make()
            cycle(prof)
            use(prof)
        gc.collect()
        after = resident_bytes(), _native.statistics()["mapped_bytes"]
    finally:
        held.__exit__(None, None, None)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize(
    ("cycles", "options", "looks"),
    [
        (1_000, {}, False),
        (150, {"record_shapes": True, "profile_memory": True, "with_stack": True}, True),
    ],
    ids=["unread", "looked at"],
)
def test_cycles_take_no_memory(cycles, options, looks):
    resident, mapped = memory_growth(
        cycles,
        lambda: opscope.profile(**options),
        use=lambda prof: len(prof.trace.events) if looks else None,
    )
    assert mapped < GROWN_BYTES
    assert resident < 4 << 20


def test_a_recording_thrown_away_while_running_stops():
    prof = opscope.profile()
    prof.start()
    assert _native.statistics()["wanted"] != 0
    del prof
    gc.collect()
    assert _native.statistics()["wanted"] == 0
    assert _native.gc_callback not in gc.callbacks


def test_a_lack_of_memory_while_decoding_is_reported_and_can_be_tried_again(monkeypatch):
    def full(window, prefixes):
        raise MemoryError("std::bad_alloc")

    with opscope.profile() as prof:
        torch.ones(1)
    with monkeypatch.context() as patch:
        patch.setattr("opscope.recording.recorder._native.decode", full)
        with pytest.raises(InsufficientMemoryError, match="for decoding what was recorded"):
            _ = prof.trace
    assert "aten::ones" in names(prof.trace)
