"""Activity filters and switches that concern devices."""

from __future__ import annotations

import pytest
import torch
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity

import opscope
import opscope.drop_in
from opscope.api.trace import Trace
from opscope.errors import UsageError
from opscope.torch_api.drop_in.backend import session
from opscope.torch_api.drop_in.backend.config import ProfilerConfig

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA


def recorded(fake: FakeCupti, kinds: list[str]) -> Trace:
    with opscope.profile(activities=[CPU, {CUDA: kinds}]) as prof:
        run(fake)
    return prof.trace


def run(fake: FakeCupti) -> None:
    with opscope.record_function("around"):
        fake.launch("kernel", duration_ns=1000)
        fake.copy(64)
        fake.fill(64)
        fake.overhead(1000)


def names(trace: Trace) -> list[str]:
    return [trace.names[name] for name in trace.table("gpu")["name"]]


def test_a_filter_keeps_what_it_names(fake: FakeCupti) -> None:
    kernels = recorded(fake, ["CONCURRENT_KERNEL"])
    assert names(kernels) == ["kernel"]
    assert kernels.table("gpu").lists("grid")[0] == [128, 2, 1]
    launch = int(kernels.table("gpu")["launch"][0])
    assert kernels.event_name(launch) == "cudaLaunchKernel"
    assert len(kernels.table("gpu_overheads")) == 0
    assert kernels.metadata["device_kinds"] == ["CONCURRENT_KERNEL"]
    copies = recorded(fake, ["gpu_memcpy", "GPU_MEMSET", "OVERHEAD"])
    assert names(copies) == ["Memcpy HtoD (Pinned -> Device)", "Memset (Device)"]
    assert len(copies.table("gpu_overheads")) == 1
    assert len(names(recorded(fake, ["GPU_USER_ANNOTATION"]))) == 1


def test_an_empty_filter_leaves_devices_alone(fake: FakeCupti) -> None:
    before = fake.count("subscriptions")
    assert names(recorded(fake, [])) == []
    assert fake.count("subscriptions") == before


def test_a_kind_that_is_not_known_is_refused(fake: FakeCupti) -> None:
    with pytest.raises(UsageError, match=r"unknown kinds of CUDA event \[.KERNELS.\]; known are"):
        opscope.profile(activities=[{CUDA: ["KERNELS"]}])


def test_torch_profilers_filters_mean_the_same(fake: FakeCupti) -> None:
    # torch.profiler's Python part leaves CUDA out where torch sees none; what it calls does not.
    config = ProfilerConfig(state=torch._C._profiler.ProfilerState.KINETO)

    def filtered(kinds: set[str]) -> list[str]:
        session.prepare_profiler(config, {CPU, CUDA}, {CUDA: kinds})
        session.enable_profiler(config, {CPU, CUDA})
        run(fake)
        events = session.disable_profiler().events()
        device = torch.autograd.DeviceType.CUDA
        return [event.name() for event in events if event.device_type() == device]

    assert filtered({"CONCURRENT_KERNEL"}) == ["kernel"]
    assert filtered({"GPU_MEMSET"}) == ["Memset (Device)"]
    with pytest.raises(RuntimeError, match="Unknown or non-member activity type name: 'KERNELS'"):
        filtered({"KERNELS"})


def test_switches_for_hardware_counters_say_that_there_are_none() -> None:
    metrics = {"profiler_metrics": ["sm__throughput"], "profiler_measure_per_kernel": True}
    try:
        config = torch._C._profiler._ExperimentalConfig(**metrics)
    except TypeError:
        pytest.skip("this torch has no such switches: 2.14 is the last")
    with opscope.drop_in.install(), pytest.warns(UserWarning, match="counters of kernels"):
        prof = torch.profiler.profile(activities=[CPU], experimental_config=config)
        prof.start()
        prof.stop()
