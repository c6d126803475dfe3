"""CUPTI is one per process: what opscope leaves in it, and how it gets on with its other users."""

from __future__ import annotations

import gc

import pytest
import torch
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity, record_function

import opscope
import opscope.drop_in
from opscope.api.trace import Trace
from opscope.recording import recorder as recorder_module
from opscope.recording.gpu import devices as gpu_devices
from support.torch_processes import run_torch

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def kernels(trace: Trace) -> list[str]:
    gpu = trace.table("gpu")
    return [trace.names[name] for name in gpu["name"][gpu["kind"] == 0]]


def test_stopping_leaves_nothing_in_cupti(fake: FakeCupti) -> None:
    # GIVEN a recording that nobody looks at
    prof = opscope.profile(activities=BOTH)
    with prof:
        fake.launch("k")
        assert [fake.count(what) for what in ("held buffers", "thread id type")] == [1, 1]
    # THEN nothing is subscribed, switched on, lent or set
    left = ("subscribed", "kinds", "held buffers", "thread id type", "buffers are zero")
    assert [fake.count(what) for what in left] == [0, 0, 0, 0, 0]
    assert fake.count("finalized") == 0
    # AND it still can be looked at
    assert kernels(prof.trace) == ["k"]


def test_cupti_has_no_buffer_to_make_zero(fake: FakeCupti) -> None:
    # GIVEN recordings that use buffers again
    for _ in range(20):
        with opscope.profile(activities=BOTH) as prof:
            for name in "abc":
                fake.launch(name)
        assert kernels(prof.trace) == ["a", "b", "c"]
    # THEN no launch waited for zeros, and there were some all the same
    assert fake.count("zeroed buffers") == fake.count("buffers not zero") == 0
    # AND for another profiler, which does not do that, CUPTI does
    assert fake.other_begins() == 0
    fake.launch("theirs")
    fake.other_ends()
    assert fake.count("zeroed buffers") > 0


def test_stopping_waits_for_work_that_is_still_running(
    fake: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_devices, "wait_for_devices", fake.finish)
    fake.set("late")
    with opscope.profile(activities=BOTH) as prof:
        fake.launch("running")
    assert kernels(prof.trace) == ["running"]


def test_leaving_devices_out_waits_for_them_first(
    fake: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (gpu_devices, recorder_module):
        monkeypatch.setattr(module, "wait_for_devices", fake.finish)
    fake.set("late")
    with opscope.profile(activities=BOTH) as prof:
        fake.launch("before")
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        fake.launch("left out")
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CUDA])
    assert kernels(prof.trace) == ["before"]


def test_leaving_the_cpu_out_leaves_devices_in(fake: FakeCupti) -> None:
    with opscope.profile(activities=BOTH) as prof:
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        torch.ones(1)
        fake.launch("k")
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
    assert kernels(prof.trace) == ["k"]
    events = [prof.trace.event_name(row) for row in range(len(prof.trace.events))]
    assert "aten::ones" not in events


def test_another_profiler_finds_cupti_free_and_leaves_no_mark_on_the_next_recording(
    fake: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a recording that is over, but not looked at
    first = opscope.profile(activities=BOTH)
    with first:
        fake.launch("first")
    # WHEN another profiler, with a clock and buffers of its own, records
    assert fake.other_begins() == 0
    fake.launch("theirs")
    fake.other_ends()
    assert fake.count("others records") == 2
    # THEN the next recording, beside the subscription that the other one keeps, has the right times
    monkeypatch.setattr(gpu_devices, "may_share", lambda: True)
    with opscope.profile(activities=BOTH) as second, record_function("around"):
        fake.launch("second")
    assert kernels(first.trace) == ["first"]
    assert kernels(second.trace) == ["second"]
    gpu, events = second.trace.table("gpu"), second.trace.events
    names = [second.trace.event_name(row) for row in range(len(events))]
    launch = int(gpu["launch"][0])
    assert names[launch] == "cudaLaunchKernel"
    assert names[int(events["parent"][launch])] == "around"
    assert gpu["start_ns"][0] >= events["start_ns"][launch]
    assert second.trace.ledger["gpu"]["not available: captures of graphs"] == 1
    # AND the other one can go on
    assert fake.other_begins() == 0
    fake.launch("theirs again")
    fake.other_ends()
    assert fake.count("others records") == 2


def test_a_profiler_that_may_be_collecting_is_not_disturbed(
    fake: FakeCupti, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fake.other_begins() == 0
    gpu_devices._reported.clear()
    with opscope.profile(activities=BOTH) as prof:
        fake.launch("theirs")
    fake.other_ends()
    assert fake.count("others records") == 2
    assert kernels(prof.trace) == []
    assert "another profiler is using CUPTI" in capfd.readouterr().err


def test_torchs_profiler_is_idle_unless_it_records_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    idle = gpu_devices.may_share
    with opscope.profile():
        assert idle()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]):
        assert not idle()
    assert idle()
    with opscope.drop_in.install(), torch.profiler.profile(activities=[ProfilerActivity.CPU]):
        assert idle()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert not idle()


def test_tools_around_the_process_are_named(
    fake: FakeCupti, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/nvidia/nsys/libToolsInjection64.so")
    fake.set("subscribe_error", 39)
    with opscope.profile(activities=BOTH) as prof:
        fake.launch("k")
    assert "Nsight Systems already uses CUPTI in this process" in capfd.readouterr().err
    assert "Nsight Systems" in prof.trace.metadata["gpu"]["unavailable"]


def test_teardown_cupti_detaches_it_when_requested(
    fake: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEARDOWN_CUPTI", "1")
    with opscope.profile(activities=BOTH) as first:
        fake.launch("k")
    assert fake.count("finalized") == 1
    assert kernels(first.trace) == ["k"]
    monkeypatch.setenv("TEARDOWN_CUPTI", "0")
    with opscope.profile(activities=BOTH) as second:
        fake.launch("k")
    assert fake.count("finalized") == 1
    assert kernels(second.trace) == ["k"]


def test_overlapping_recordings_leave_cupti_with_the_last(fake: FakeCupti) -> None:
    outer, inner = (opscope.profile(activities=BOTH) for _ in range(2))
    outer.start()
    fake.launch("one")
    inner.start()
    fake.launch("two")
    inner.stop()
    assert fake.count("subscribed") == 1
    fake.launch("three")
    assert kernels(inner.trace) == ["two"]
    outer.stop()
    assert fake.count("subscribed") == 0
    assert kernels(outer.trace) == ["one", "two", "three"]


def test_what_a_dropped_recording_collected_is_not_in_the_next(fake: FakeCupti) -> None:
    for _ in range(8):
        dropped = opscope.profile(activities=BOTH)
        dropped.start()
        for _ in range(50):
            fake.launch("dropped")
        del dropped
        gc.collect()
        with opscope.profile(activities=BOTH) as prof:
            fake.launch("kept")
        assert kernels(prof.trace) == ["kept"]
        assert prof.trace.ledger["gpu"]["recorded"] == 2


def test_calls_that_tell_nothing_are_left_out(fake: FakeCupti) -> None:
    with opscope.profile(activities=BOTH) as prof:
        fake.call(17)  # cudaGetDevice
        fake.call(10)  # cudaGetLastError
        fake.call(304, api=1)  # cuCtxGetCurrent
        fake.call(719, api=1)  # cuKernelGetName
        fake.call(5, api=1)  # of the driver, and starts nothing
        fake.call(549, api=1)  # cuMemCreate
        fake.driver_launch("triton_poi_fused_add_0")
    trace = prof.trace
    calls = trace.table("runtime_calls")["event"]
    assert [trace.event_name(row) for row in calls] == ["cuMemCreate", "cuLaunchKernelEx"]
    assert kernels(trace) == ["triton_poi_fused_add_0"]


_FORKING = """
import os, sys
import torch
from torch.profiler import ProfilerActivity
import opscope
from tests.support.fake_cupti import FakeCupti

fake = FakeCupti(os.environ["OPSCOPE_CUPTI"])
prof = opscope.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
prof.start()
fake.launch("parent")
child = os.fork()
if child == 0:
    prof.stop()
    before = fake.count("subscriptions")
    with opscope.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as own:
        torch.ones(2).add(1)
    assert fake.count("subscriptions") == before, "CUPTI waits for threads that are not there"
    assert "forked" in own.trace.metadata["gpu"]["unavailable"], own.trace.metadata
    assert [own.trace.event_name(row) for row in range(2)] == ["aten::ones", "aten::empty"]
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
fake.launch("parent")
prof.stop()
assert prof.trace.ledger["gpu"]["work"] == 2, prof.trace.ledger["gpu"]
left_open = opscope.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
left_open.start()
fake.launch("never looked at")
print("reached the end")
"""


def test_forked_children_and_exits_while_recording_do_no_harm(cupti_library: str) -> None:
    done = run_torch("-c", _FORKING, added={"OPSCOPE_CUPTI": cupti_library})
    assert (done.returncode, done.stdout.strip()) == (0, "reached the end"), done.stderr
