"""Patterns about what is launched on devices: what fixes leave of the host's time and of work."""

from __future__ import annotations

import pytest

from opscope.columns.codes import EventKind
from opscope.findings.find import find_findings
from opscope.findings.status import Status
from opscope.findings.verdict import find_verdict
from support.build_trace import build_trace, kernel, span, tensor

CALL = EventKind.RUNTIME_CALL
CALLER = ("train.py", 1, "main")
PAGEABLE, DEVICE = 1, 3


def found(trace, name):
    return next((one for one in find_findings(trace, which="all") if one.id == name), None)


def launches(count, *, each_us, work_us, name="aten::add_", **options):
    """Operators that each launch one kernel, the work of each after that of the one before."""
    spans, gpu, free = [], [], 0.0
    for i in range(count):
        begin = i * each_us
        inputs = [tensor(64, device="cuda:0", storage=64 + i)]
        spans.append(span(name, begin, begin + 0.9 * each_us, inputs=inputs, **options))
        spans.append(span("cudaLaunchKernel", begin + 1, begin + 0.8 * each_us, kind=CALL))
        free = max(free, begin + 0.8 * each_us) + work_us
        gpu.append(kernel("k", free - work_us, free, launch=len(spans) - 1))
    return spans, gpu


def launching(count, **options):
    spans, gpu = launches(count, **options)
    return build_trace(spans, gpu=gpu)


def under_main(spans, gpu, end):
    whole = span("train.py(1): main", 0, end, kind=EventKind.PYTHON_CALL, frame=CALLER)
    return build_trace([whole, *spans], gpu=[{**one, "launch": one["launch"] + 1} for one in gpu])


def test_launches_that_take_longer_than_their_work():
    trace = launching(600, each_us=10, work_us=2)
    finding = found(trace, "launch-bound")
    assert finding.saved_share == pytest.approx(0.8, abs=0.1)
    assert "CUDA graph" in finding.saved_by
    assert found(trace, "many-small-operators") is None  # it is said once


def test_launches_whose_work_takes_longer_are_none():
    trace = launching(600, each_us=10, work_us=12)
    assert found(trace, "launch-bound") is None


@pytest.mark.parametrize(("work_us", "is_healthy"), [(99, True), (20, False)])
def test_python_beside_a_device_that_works_is_not_slow(work_us, is_healthy):
    spans, gpu = [], []
    for i in range(20):
        begin = i * 100
        spans.append(span("aten::mm", begin, begin + 10))
        spans.append(span("cudaLaunchKernel", begin + 1, begin + 8, kind=CALL))
        gpu.append(kernel("k", begin + 8, begin + 8 + work_us, launch=len(spans) - 1))
    verdict = find_verdict(build_trace(spans, gpu=gpu))
    assert (verdict.status is Status.HEALTHY) == is_healthy
    assert verdict.most[0] == ("cuda:0 busy", pytest.approx(work_us / 100, abs=0.02))


@pytest.mark.parametrize(
    ("capability", "saved_us"), [((7, 5), None), ((8, 0), 55), ((8, 6), 32), (None, 32)]
)
def test_what_tensor_cores_save_depends_on_the_device(capability, saved_us):
    names = ("computeMajor", "computeMinor")
    about = dict(zip(names, capability, strict=True)) if capability else {}
    matrix = tensor(64, 64, device="cuda:0")
    trace = build_trace(
        [span("aten::mm", 0, 10, inputs=[matrix, matrix]), span("cudaLaunch", 2, 4, kind=CALL)],
        gpu=[kernel("ampere_sgemm_128x64_nn", 5, 70, launch=1)],
        metadata={"deviceProperties": [{"id": 0, **about}]},
    )
    finding = found(trace, "full-precision-matmul")
    assert (finding is None) == (saved_us is None)
    if finding is not None:
        assert finding.saved_ns / 1000 == pytest.approx(saved_us, abs=3)


def test_functions_for_lists_are_a_few_kernels_on_a_device():
    spans, gpu = launches(40, each_us=20, work_us=2, caller=CALLER, line=5)
    finding = found(under_main(spans, gpu, 800), "tensor-by-tensor")
    assert finding.saved_share > 0.8


def copied(source):
    spans, gpu = [], []
    for i in range(4):
        begin = 1000 * i
        spans += [
            span("aten::copy_", begin, begin + 420),
            span("cudaMemcpyAsync", begin + 5, begin + 400, kind=CALL),
            span("cudaStreamSynchronize", begin + 401, begin + 415, kind=CALL),
            span("aten::mm", begin + 430, begin + 440),
            span("cudaLaunchKernel", begin + 432, begin + 438, kind=CALL),
        ]
        copy, launch = 5 * i + 1, 5 * i + 4
        memory = {"source_memory": source, "destination_memory": DEVICE}
        gpu += [
            kernel("Memcpy HtoD", begin + 10, begin + 410, kind=1, launch=copy, **memory),
            kernel("gemm", begin + 440, begin + 990, launch=launch),
        ]
    return found(build_trace(spans, gpu=gpu), "implicit-synchronisation")


def test_copies_from_pageable_memory_hold_the_host_up():
    assert copied(PAGEABLE).saved_share > copied(2).saved_share + 0.15
    assert "pageable" in copied(PAGEABLE).saved_by


def test_what_a_device_was_idle_is_not_known_without_its_work():
    spans = [
        span("aten::item", 0, 40),
        span("cudaStreamSynchronize", 5, 30, kind=CALL),
        span("aten::item", 50, 90),
        span("cudaStreamSynchronize", 55, 80, kind=CALL),
    ]
    finding = found(build_trace(spans), "implicit-synchronisation")
    assert finding.saved_ns is None and "not recorded" in finding.saved_by


def test_work_that_was_launched_before_is_reported():
    """As in a part of a recording that begins while a device computes."""
    spans = [span("cudaLaunchKernel", 0, 5, kind=EventKind.RUNTIME_CALL)]
    findings = find_findings(build_trace(spans, gpu=[kernel("gemm", 6, 900, launch=-1)]))
    assert any("has no launch in this period" in note for note in findings.notes)
    assert findings.as_dict()["launched_elsewhere"] == 1.0


REPLAY = ("torch/cuda/graphs.py", 137, "replay")


@pytest.mark.parametrize(("work_us", "is_found"), [(900, False), (0, True)])
def test_what_a_replayed_graph_computes_is_no_time_outside_torch(work_us, is_found):
    """Unlike torch's Python that takes long and launches nothing."""
    spans, gpu = (
        [span("train.py(1): main", 0, 40_000, kind=EventKind.PYTHON_CALL, frame=CALLER)],
        [],
    )
    for i in range(40):
        begin = 1_000 * i
        call = {"kind": EventKind.PYTHON_CALL, "frame": REPLAY, "caller": CALLER, "line": 7}
        spans.append(span("torch/cuda/graphs.py(137): replay", begin + 1, begin + 990, **call))
        if work_us:
            spans.append(span("cudaGraphLaunch", begin + 2, begin + 10, kind=CALL))
            launch = len(spans) - 1
            gpu.append(kernel("k", begin + 11, begin + 11 + work_us, launch=launch))
    assert (found(build_trace(spans, gpu=gpu), "time-outside-torch") is not None) == is_found
