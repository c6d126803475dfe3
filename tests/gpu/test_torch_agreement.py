"""On a GPU: the same program under opscope and under torch.profiler gives the same device work.

Run by ``make gpu-test``. Skipped where torch finds no GPU.
"""

from __future__ import annotations

import difflib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.gpu.device_work import readable, work_under_opscope, work_under_torch
from tests.gpu.programs import PROGRAMS, Program, graph_replay, tiny_kernels, warm_up
from torch.profiler import ProfilerActivity

import opscope
from opscope.analysis.device_account import graph_share
from opscope.api.trace import Trace
from opscope.columns.codes import GpuKind
from opscope.columns.device_rules import check_device_rules
from opscope.columns.schema import END_WITHOUT_DEVICE_DATA, EventKind
from opscope.torch_api.event_tree.profiler_tree import ProfilerTree

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
]
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def under_opscope(program: Callable[[], object]) -> Trace:
    with opscope.profile(activities=BOTH) as prof:
        program()
    return prof.trace


def count_work(trace: Trace) -> int:
    return int(np.count_nonzero(trace.table("gpu")["kind"] <= 2))


@pytest.fixture(params=list(PROGRAMS))
def program(request: pytest.FixtureRequest) -> Program:
    made = PROGRAMS[request.param]("cuda")
    warm_up(made)
    return made


def test_names_counts_launches_and_durations_agree(program: Program) -> None:
    before = work_under_opscope(program)
    theirs = work_under_torch(program)
    after = work_under_opscope(program)  # beside the subscription that torch.profiler keeps
    for ours in (before, after):
        assert ours.counts == theirs.counts
        assert ours.launches == theirs.launches
        for name, expected in theirs.microseconds.items():
            assert ours.microseconds[name] == pytest.approx(expected, rel=0.25, abs=50), name


def test_everything_is_linked_and_keeps_the_rules(program: Program) -> None:
    trace = under_opscope(program)
    gpu, events = trace.table("gpu"), trace.events
    work = gpu["kind"] <= 2
    assert work.any()
    assert (gpu["launch"][work] >= 0).all()
    assert (events["kind"][gpu["launch"][work]] == EventKind.RUNTIME_CALL).all()
    assert check_device_rules(trace).doubts == []
    lost = {k: v for k, v in trace.ledger["gpu"].items() if k.startswith("dropped") and v}
    assert lost == {}


def test_the_clock_is_the_recorders() -> None:
    trace = under_opscope(tiny_kernels(launches=10))
    assert trace.metadata["gpu"]["clock"] == "recorder", trace.metadata["gpu"]


# In a process of its own, because captures are seen only where CUPTI's subscription was free.
_CAPTURE = """
from tests.gpu.programs import graph_replay
from tests.gpu.test_torch_agreement import graph_share, under_opscope

trace = under_opscope(lambda: graph_replay()())
operators = trace.table("gpu_graph_nodes")["operator"]
print(*graph_share(trace), *{trace.names[row] for row in operators})
"""


def test_replays_are_attributed_to_operators() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CAPTURE], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    kernels, share, *operators = done.stdout.split()
    assert int(kernels) > 0
    assert float(share) == 1.0
    assert "aten::addmm" in operators
    assert {"aten::relu", "aten::clamp_min"} & set(operators)  # one runs the other


def test_replays_captured_earlier_are_recorded_all_the_same() -> None:
    replay = graph_replay(replays=5)
    replay()
    trace = under_opscope(replay)
    assert graph_share(trace)[0] == count_work(trace) > 0


def test_a_million_kernels_lose_nothing() -> None:
    trace = under_opscope(tiny_kernels(launches=1_000_000))
    names = trace.table("gpu")["name"][trace.table("gpu")["kind"] == 0]
    counts = Counter(dict(zip(*np.unique(names, return_counts=True), strict=True)))
    assert max(counts.values()) == 1_000_000, trace.ledger["gpu"]


def test_steps_after_recording_are_as_fast_as_before() -> None:
    step = tiny_kernels()

    def median_seconds() -> float:
        times = []
        for _ in range(30):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    median_seconds()
    before = min(median_seconds() for _ in range(3))
    under_opscope(step)
    assert min(median_seconds() for _ in range(3)) < before * 1.15


def test_memory_has_allocated_and_reserved_totals() -> None:
    with opscope.profile(activities=BOTH, profile_memory=True) as prof:
        held = torch.empty(1 << 20, device="cuda")
    allocations = prof.trace.table("allocations")
    on_device = allocations["device_type"] == 1
    assert on_device.any()
    assert allocations["total_allocated_bytes"][on_device].max() >= held.numel() * 4
    assert allocations["total_reserved_bytes"][on_device].max() >= held.numel() * 4


def test_running_out_of_memory_is_recorded() -> None:
    out_of_memory = pytest.raises(torch.OutOfMemoryError)
    with opscope.profile(activities=BOTH, profile_memory=True) as prof, out_of_memory:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    assert (prof.trace.table("allocations")["action"] == 2).any()


def test_compiled_kernels_have_their_names_and_regions() -> None:
    pytest.importorskip("triton")
    compiled = torch.compile(lambda x: (x * 2 + 1).relu())
    x = torch.randn(1 << 16, device="cuda")
    compiled(x)
    trace = under_opscope(lambda: compiled(x))
    gpu = trace.table("gpu")
    rows = [r for r in range(len(gpu)) if trace.names[gpu["name"][r]].startswith("triton_")]
    assert rows
    around, event = [], int(gpu["launch"][rows[0]])
    while event >= 0:
        around.append(trace.event_name(event))
        event = int(trace.events["parent"][event])
    assert any(name.startswith("Torch-Compiled Region") for name in around), around


def test_a_missing_cupti_leaves_the_cpu_recording() -> None:
    code = (
        "import torch, opscope\n"
        "with opscope.profile() as prof: torch.ones(4, device='cuda').add(1)\n"
        "names = [prof.trace.event_name(row) for row in range(len(prof.trace.events))]\n"
        "assert 'aten::add' in names and len(prof.trace.table('gpu')) == 0\n"
    )
    environment = {**os.environ, "OPSCOPE_CUPTI": "/nowhere/libcupti.so"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "GPU activity is not recorded" in done.stderr


def test_of_a_program_that_is_killed_the_file_has_what_devices_did(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time, torch, opscope\n"
        "x = torch.ones(64, 64, device='cuda')\n"
        "profile = opscope.profile(stream_to=sys.argv[1], keeper=False)\n"
        "profile.start()\n"
        "until = time.monotonic() + 4\n"
        "while time.monotonic() < until:\n"
        "    x.add_(1)\n"
        "    torch.cuda.synchronize()\n"
        "    time.sleep(0.001)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    trace = opscope.load(tmp_path)
    gpu = trace.table("gpu")
    kernels = np.flatnonzero(gpu["kind"] == GpuKind.KERNEL)
    names = [trace.event_name(row) for row in range(len(trace.events))]
    additions = names.count("aten::add_")
    assert additions / 2 < len(kernels) <= additions
    assert (gpu["launch"][kernels] >= 0).all()
    assert 0 < trace.ledger["gpu"][END_WITHOUT_DEVICE_DATA] < 2e9


_NOT_OF_THE_PROGRAM = (
    "cudaStreamIsCapturing",
    "cudaGetDeviceProperties_v2",
    "cudaGetDeviceCount",
    "Activity Buffer Request",  # each profiler asks for buffers when it needs one
)


def tree_lines(events: list[Any], depth: int = 0) -> list[str]:
    lines = []
    for event in events:
        if event.name not in _NOT_OF_THE_PROGRAM:
            lines.append(f"{'  ' * depth}{readable(event.name)} {event.tag}")
            lines += tree_lines(event.children, depth + 1)
    while depth == 0 and lines and lines[-1].startswith("cudaDeviceSynchronize"):
        lines.pop()  # the program's, and that of torch.profiler's stopping
    return lines


def test_event_trees_agree() -> None:
    def program() -> None:
        x = torch.ones((4, 4), device="cuda")
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.tanh(x) - x
        torch.cuda.synchronize()

    streams = [torch.cuda.Stream() for _ in range(3)]
    program()
    ours = tree_lines(ProfilerTree(under_opscope(program)).roots)
    with torch.profiler.profile(activities=BOTH) as prof:
        program()
    assert prof.profiler is not None and prof.profiler.kineto_results is not None
    theirs = tree_lines(prof.profiler.kineto_results.experimental_event_tree())
    assert ours == theirs, "\n".join(difflib.unified_diff(theirs, ours, "torch", "opscope"))
