"""What a recorded job's devices did: as HTA says, and the same of a recording as of the file."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from tests.recorded_gpu.__main__ import JOBS
from tests.recorded_gpu.job import read_job
from tests.recorded_gpu.play import play
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity

import opscope
from opscope import load_trace
from opscope.analysis.kernel_occupancy import kernel_occupancy

SAMPLED = JOBS / "sampled_training_rank_0.json.gz"


def test_a_job_with_collectives_has_the_figures_that_hta_gives() -> None:
    (device,) = load_trace(SAMPLED).device_use("all").devices
    # HTA 0.5 of the same file, with include_last_profiler_step=True
    assert (device.busy_ns, device.computing_ns) == (547_656_000, 210_320_000)
    assert 100 * device.hidden_communicating_ns / device.communicating_ns == pytest.approx(
        14.95, abs=0.005
    )
    deepest = {stream.stream: stream.depth_max for stream in device.streams}
    assert deepest == {7: 80, 23: 4, 25: 8, 84: 2, 203: 1}
    assert sum(stream.launches for stream in device.streams) == device.work == 1_204


@pytest.mark.parametrize(
    "name", ["a100_alexnet_syncs", "a100_event_sync", "a100_triton", "h100_transformer"]
)
def test_occupancy_is_what_kineto_estimated(name: str) -> None:
    file = JOBS / f"{name}.json.gz"
    trace = load_trace(file)
    found = kernel_occupancy(trace)
    assert found is not None
    gpu, compared = trace.table("gpu"), 0
    row_of = {int(gpu["correlation_id"][row]): row for row in np.flatnonzero(gpu["kind"] == 0)}
    for event in json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]:
        # Of kernels with more shared memory than any gets unless it asks for it, Kineto says 0.
        if event.get("cat") == "kernel" and event["args"]["shared memory"] <= 48 << 10:
            estimated = event["args"]["est. achieved occupancy %"]
            row = row_of[event["args"]["correlation"]]
            assert 100 * found.occupancy[row] == pytest.approx(estimated, abs=1.0)
            compared += 1
    assert compared


def test_a_recording_has_the_figures_of_the_file_it_was_played_from(fake: FakeCupti) -> None:
    (wanted,) = load_trace(SAMPLED).device_use("all").devices
    with opscope.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        play(read_job(SAMPLED), fake, with_events=False)
    (found,) = prof.trace.device_use("all").devices
    rounding_ns = 4 * wanted.work
    for what in (
        "busy_ns", "computing_ns", "communicating_ns", "copying_ns", "hidden_communicating_ns",
        "hidden_copying_ns", "work_ns",
    ):  # fmt: skip
        assert getattr(found, what) == pytest.approx(getattr(wanted, what), abs=rounding_ns), what
    assert (found.work, found.without_launch) == (wanted.work, 0)
    streams = {stream.stream: stream.work for stream in wanted.streams}
    assert {stream.stream: stream.work for stream in found.streams} == streams
    assert sum(found.idle_ns.values()) + found.busy_ns == prof.trace.device_use("all").wall_ns


def test_a_program_that_waits_for_no_device_is_faster_by_what_its_host_does_less() -> None:
    trace = load_trace(JOBS / "h100_transformer.json.gz")
    (device,) = trace.device_use("all").devices
    assert device.busy_ns < 0.25 * trace.device_use("all").wall_ns
    names = np.array([trace.event_name(row) for row in range(len(trace.events))])
    forward_ns = int(trace.events["duration_ns"][names == "forward"].sum())
    # The backward pass has a thread of its own, which begins when it is asked to.
    assert trace.what_if({"forward": 0.0}, "all").saved_ns == pytest.approx(forward_ns, rel=0.01)
    (waits,) = (one for one in trace.findings() if one.id == "implicit-synchronisation")
    assert waits.saved_ns
