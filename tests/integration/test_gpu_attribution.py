"""Kernels that torch's operators do not launch themselves: Triton's and those of collectives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity

import opscope
from opscope.api.trace import Trace

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]

# What inductor's launchers say of a kernel, torch/_inductor/runtime/triton_heuristics.py.
TRITON = {
    "kernel_file": "/tmp/torchinductor/ab/cabc.py",
    "kernel_hash": "cabc",
    "kernel_backend": "triton",
    "stream": 7,
    "num_warps": 4,
    "kernel_kwargs": "XBLOCK=128",
}


def around(trace: Trace, kernel: str) -> list[str]:
    """The events around the launch of a kernel, innermost first."""
    gpu = trace.table("gpu")
    row = [trace.names[name] for name in gpu["name"]].index(kernel)
    event, found = int(gpu["launch"][row]), []
    while event >= 0:
        found.append(trace.event_name(event))
        event = int(trace.events["parent"][event])
    return found


def slices(prof: opscope.profile, path: Path) -> dict[str, dict[str, Any]]:
    """Arguments of the spans of a Chrome trace, by category and name."""
    prof.export_chrome_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    return {f"{e['cat']} {e['name']}": e["args"] for e in events if e.get("ph") == "X"}


def launching_backend(fake: FakeCupti) -> Callable[..., Any]:
    """A compiler whose code launches as inductor's does: described, and, once warm, bare."""

    fast = torch._C._profiler._RecordFunctionFast

    def compile_graph(module: Any, inputs: Any) -> Callable[..., Any]:
        def run(*arguments: torch.Tensor) -> Any:
            with fast("triton_poi_fused_add_0", arguments, TRITON):
                fake.driver_launch("triton_poi_fused_add_0", duration_ns=3000)
            fake.driver_launch("triton_per_fused_sum_1", duration_ns=2000)
            return module(*arguments)

        return run

    return compile_graph


def test_tritons_kernels_have_their_region_and_what_inductor_says_of_them(
    fake: FakeCupti, tmp_path: Path
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend=launching_backend(fake))
    compiled(torch.ones(4))
    with opscope.profile(activities=BOTH, record_shapes=True) as prof:
        compiled(torch.ones(4))
    described = around(prof.trace, "triton_poi_fused_add_0")
    assert described[:2] == ["cuLaunchKernelEx", "triton_poi_fused_add_0"]
    assert described[2].startswith("Torch-Compiled Region: ")
    bare = around(prof.trace, "triton_per_fused_sum_1")
    assert bare[0] == "cuLaunchKernelEx"
    assert bare[1].startswith("Torch-Compiled Region: ")
    # AND tables count their time for kernel and region
    averages = {(a.key, str(a.device_type)): a for a in prof.key_averages()}
    on_cpu = "DeviceType.CPU"
    assert averages["triton_poi_fused_add_0", on_cpu].self_device_time_total == pytest.approx(
        3.0, abs=0.01
    )
    region = averages[bare[1], on_cpu]
    assert region.device_time_total == pytest.approx(5.0, abs=0.01)
    assert region.self_device_time_total == pytest.approx(2.0, abs=0.01)
    # AND files say where the kernel's code is
    found = slices(prof, tmp_path / "x.json")
    operator = found["cpu_op triton_poi_fused_add_0"]
    assert {key: operator[key] for key in TRITON} == TRITON
    kernel = found["kernel triton_poi_fused_add_0"]
    assert kernel["External id"] == operator["External id"]
    assert kernel["correlation"] == found["cuda_driver cuLaunchKernelEx"]["correlation"] - 1


COLLECTIVE = {
    "Collective name": "allreduce",
    "dtype": "Float",
    "In msg nelems": 1048576,
    "Out msg nelems": 1048576,
    "Group size": 8,
    "Process Group Name": "0",
    "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
}


def test_kernels_of_collectives_say_what_they_communicate(fake: FakeCupti, tmp_path: Path) -> None:
    fast = torch._C._profiler._RecordFunctionFast
    with opscope.profile(activities=BOTH, record_shapes=True) as prof:
        with (
            opscope.record_function("c10d::allreduce_"),
            fast("record_param_comms", [torch.ones(4)], COLLECTIVE),
            opscope.record_function("nccl:all_reduce"),
        ):
            fake.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, duration_ns=5000)
        fake.launch("gemm")
    assert around(prof.trace, "ncclDevKernel_AllReduce_Sum_f32_RING_LL") == [
        "cudaLaunchKernel", "nccl:all_reduce", "record_param_comms", "c10d::allreduce_",
    ]  # fmt: skip
    found = slices(prof, tmp_path / "x.json")
    kernel = found["kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    assert {key: kernel[key] for key in COLLECTIVE} == COLLECTIVE
    assert kernel["stream"] == 20
    assert not set(COLLECTIVE) & set(found["kernel gemm"])
    assert found["gpu_user_annotation nccl:all_reduce"]["stream"] == 20
