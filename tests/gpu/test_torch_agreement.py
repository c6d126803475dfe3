"""On a GPU: the same program under opscope and under torch.profiler gives the same device work.

Run by ``make gpu-test``. Skipped where torch sees no GPU.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from tests.gpu.programs import Program, graph_replay, reduce_gradients, tiny_kernels, transformer
from torch.profiler import ProfilerActivity

import opscope
from opscope.analysis.device_rules import check_device_rules
from opscope.analysis.graph_attribution import attribute_graphs
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
PROGRAMS = {
    "transformer": transformer,
    "graph": graph_replay,
    "tiny": tiny_kernels,
    "reduce": reduce_gradients,
}


def under_opscope(program: Callable[[], object]) -> Trace:
    with opscope.profile(activities=BOTH) as prof:
        program()
    return prof.trace


def device_work(trace: Trace) -> tuple[Counter[str], dict[str, float]]:
    """How often each kernel, copy and set ran, and its total time in microseconds."""
    gpu = trace.table("gpu")
    counts: Counter[str] = Counter()
    times: dict[str, float] = {}
    for row in range(len(gpu)):
        if gpu["kind"][row] <= 2:
            name = trace.names[int(gpu["name"][row])]
            counts[name] += 1
            times[name] = times.get(name, 0.0) + float(gpu["duration_ns"][row]) / 1000
    return counts, times


def torch_work(program: Callable[[], object]) -> tuple[Counter[str], dict[str, float]]:
    """The same from torch.profiler."""
    with torch.profiler.profile(activities=BOTH) as prof:
        program()
        torch.cuda.synchronize()
    counts: Counter[str] = Counter()
    times: dict[str, float] = {}
    for event in prof.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation:
            counts[event.name] += 1
            times[event.name] = times.get(event.name, 0.0) + event.device_time_total
    return counts, times


@pytest.fixture(params=sorted(PROGRAMS))
def program(request: pytest.FixtureRequest) -> Program:
    made = PROGRAMS[request.param]()
    made()
    torch.cuda.synchronize()
    return made


def test_names_counts_and_durations_agree(program: Program) -> None:
    ours, our_times = device_work(under_opscope(program))
    theirs, their_times = torch_work(program)
    assert ours == theirs
    for name, expected in their_times.items():
        assert our_times[name] == pytest.approx(expected, rel=0.25, abs=20), name


def test_everything_is_linked_and_keeps_the_rules(program: Program) -> None:
    trace = under_opscope(program)
    gpu, events = trace.table("gpu"), trace.events
    work = gpu["kind"] <= 2
    assert (gpu["launch"][work] >= 0).all()
    assert (events["kind"][gpu["launch"][work]] == EventKind.RUNTIME_CALL).all()
    assert check_device_rules(trace).broken == []
    lost = {k: v for k, v in trace.ledger["gpu"].items() if k.startswith("dropped") and v}
    assert lost == {}


def test_replays_are_attributed_to_operators() -> None:
    programs: list[Program] = []

    def capture_and_replay() -> None:
        programs.append(graph_replay())
        programs[0]()

    graphs = attribute_graphs(under_opscope(capture_and_replay))
    assert graphs.kernels > 0
    assert graphs.share == 1.0, graphs.describe()
    assert {"aten::addmm", "aten::relu"} <= {operator.operator for operator in graphs.operators}


def test_a_million_kernels_lose_nothing() -> None:
    x = torch.ones(16, device="cuda")

    def many() -> None:
        for _ in range(1_000_000):
            x.add_(1)

    trace = under_opscope(many)
    counts, _ = device_work(trace)
    assert sum(counts.values()) == 1_000_000, trace.ledger["gpu"]


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
    before = median_seconds()
    under_opscope(step)
    assert median_seconds() < before * 1.15


def test_memory_has_allocated_and_reserved_totals() -> None:
    with opscope.profile(activities=BOTH, profile_memory=True) as prof:
        held = torch.empty(1 << 20, device="cuda")
    allocations = prof.trace.table("allocations")
    on_device = allocations["device_type"] == 1
    assert on_device.any()
    assert allocations["total_allocated_bytes"][on_device].max() >= held.numel() * 4
    assert allocations["total_reserved_bytes"][on_device].max() >= held.numel() * 4


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
