"""What devices did in a recording that is in a file while it runs, over the fake CUPTI."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity, record_function

import opscope
from opscope.api.trace import Trace
from opscope.columns.codes import GpuKind
from opscope.recording.recovered import recover_file
from opscope.storage.manifest import unfinished_recordings
from support.processes import opscope_here
from support.torch_processes import run_torch

PROGRAM = """
import os, signal, sys, time
import torch, opscope
from tests.support.fake_cupti import FakeCupti

fake = FakeCupti(os.environ["OPSCOPE_CUPTI"])
both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
folder, end, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
profile = opscope.profile(activities=both, stream_to=folder, keeper=False)
profile.start()
launched = 0
until = time.monotonic() + seconds
while time.monotonic() < until:
    with opscope.record_function("step"):
        fake.launch("_Z6linearPf", duration_ns=5000)
    launched += 1
    time.sleep(0.002)
print(launched, flush=True)
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "forked":
    child = os.fork()
    if child == 0:
        profile.stop()
        os._exit(0)
    os.waitpid(child, 0)
    fake.launch("_Z6linearPf", duration_ns=5000)
    time.sleep(1.5)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, end: str, seconds: float, library: str) -> int:
    """Launches that it counted."""
    done = run_torch("-c", PROGRAM, folder, end, seconds, added={"OPSCOPE_CUPTI": library})
    expected = {"killed": -signal.SIGKILL, "forked": -signal.SIGKILL}
    assert done.returncode == expected.get(end, 0)
    return int(done.stdout)


def kernels(trace: Trace) -> list[int]:
    return np.flatnonzero(trace.table("gpu")["kind"] == GpuKind.KERNEL).tolist()


def end_without_data_ns(trace: Trace) -> float:
    return trace.ledger.get("gpu", {}).get("without device data at the end_ns", 0)


def test_devices_of_a_program_that_was_killed_are_there_until_they_were_last_recorded(
    cupti_library: str, tmp_path: Path
) -> None:
    launched = run(tmp_path / "t", "killed", 2.5, cupti_library)
    trace = opscope.load(tmp_path / "t")
    gpu, rows = trace.table("gpu"), kernels(trace)
    assert launched / 4 < len(rows) <= launched
    assert {trace.names[gpu["name"][row]] for row in rows} == {"linear(float*)"}
    launches = gpu["launch"][rows]
    assert {trace.event_name(event) for event in launches.tolist()} == {"cudaLaunchKernel"}
    assert {trace.event_name(e) for e in trace.events["parent"][launches].tolist()} == {"step"}
    ended_ns = (trace.events["start_ns"] + trace.events["duration_ns"]).max()
    last_ns = (gpu["start_ns"][rows] + gpu["duration_ns"][rows]).max()
    assert ended_ns - last_ns > 0
    assert end_without_data_ns(trace) > 0
    assert last_ns <= ended_ns - end_without_data_ns(trace) + 50_000_000
    assert "dropped: device activity, lost with the process" not in trace.ledger["recording"]
    (path,) = unfinished_recordings(tmp_path / "t")
    recover_file(path)
    again = opscope.load(tmp_path / "t")
    np.testing.assert_array_equal(again.table("gpu")["start_ns"], gpu["start_ns"])
    told = opscope_here("summary", tmp_path / "t")
    assert "the last device data is from" in told.stdout + told.stderr


def test_a_program_that_dies_before_devices_were_recorded_says_that_they_are_missing(
    cupti_library: str, tmp_path: Path
) -> None:
    run(tmp_path / "t", "killed", 0.1, cupti_library)
    trace = opscope.load(tmp_path / "t")
    assert kernels(trace) == []
    assert trace.ledger["recording"]["dropped: device activity, lost with the process"] == 1


def test_a_forked_child_leaves_what_devices_did_to_its_parent(
    cupti_library: str, tmp_path: Path
) -> None:
    launched = run(tmp_path / "t", "forked", 1.3, cupti_library)
    trace = opscope.load(tmp_path / "t")
    assert len(kernels(trace)) == launched + 1


def test_what_is_read_of_a_recording_that_goes_on_is_what_it_has_at_its_end(
    fake: FakeCupti, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    profile = opscope.profile(activities=both, stream_to=tmp_path / "t", keeper=False)
    with profile:
        for _ in range(50):
            with record_function("step"):
                fake.launch("_Z6linearPf", duration_ns=5000)
        fake.copy(4096)
        opscope._native.note_devices()
        meanwhile = opscope.load(tmp_path / "t").table("gpu")
    whole = profile.trace.table("gpu")
    assert len(kernels(profile.trace)) == 50
    is_work = meanwhile["kind"] <= GpuKind.SET
    for column in ("kind", "correlation_id", "stream", "size_bytes"):
        expected = whole[column][whole["kind"] <= GpuKind.SET]
        np.testing.assert_array_equal(meanwhile[column][is_work], expected)


def test_a_recording_without_the_library_says_why_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCOPE_CUPTI", str(tmp_path / "none.so"))
    program = (
        "import os, sys, torch, opscope\n"
        "both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]\n"
        "profile = opscope.profile(activities=both, stream_to=sys.argv[1], keeper=False)\n"
        "profile.start()\n"
        "torch.ones(1)\n"
        "os._exit(3)"
    )
    assert run_torch("-c", program, tmp_path / "t").returncode == 3
    trace = opscope.load(tmp_path / "t")
    assert "unavailable" in trace.metadata["gpu"]
    assert "dropped: device activity, lost with the process" not in trace.ledger["recording"]
