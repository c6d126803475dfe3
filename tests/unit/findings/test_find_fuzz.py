"""Patterns on anything: names they look for, in places and with arguments they do not expect."""

from __future__ import annotations

import json

import numpy as np
import pytest

from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from opscope.findings.patterns import all_patterns
from support.build_trace import allocation, build_trace, kernel, span, tensor
from support.finding import hold_order

NAMES = [
    "aten::select", "aten::fill_", "aten::conv2d", "aten::batch_norm", "aten::add_", "aten::mm",
    "aten::_to_copy", "aten::copy_", "aten::item", "aten::_local_scalar_dense", "aten::zero_",
    "aten::empty", "Optimizer.step#A.step", "Optimizer.zero_grad#A.zero_grad", "aten::nonzero",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "_compile.compile_inner",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "cudaStreamSynchronize",
    "torch::autograd::AccumulateGrad", "ProfilerStep#1", "", "other",
]  # fmt: skip
FRAMES = [("train.py", 3, "train"), ("/usr/lib/python3/x.py", 9, "f"), ("", -1, "g")]


def random_tensor(random):
    sizes = random.integers(0, 20, random.integers(0, 4)).tolist()
    return tensor(
        *sizes,
        dtype=str(random.choice(["float32", "float16", "bfloat16", "int64"])),
        device=str(random.choice(["cpu", "cuda:0"])),
        storage=int(random.integers(0, 4)),
        tensor_id=int(random.integers(-1, 4)),
        impl=int(random.integers(0, 2)),
    )


def random_spans(random, rows, rich):
    spans = []
    for start in np.sort(random.integers(0, 300, rows)).tolist():
        options = {"kind": EventKind(int(random.choice(8, p=[0.6, *[0.4 / 7] * 7])))}
        if rich:
            choices = [random_tensor(random), 5, 15, None, [random_tensor(random)] * 2, "x"]
            options["inputs"] = [choices[i] for i in random.integers(0, 6, random.integers(0, 5))]
            options["frame"] = FRAMES[random.integers(3)] if random.random() < 0.4 else None
            options["caller"] = FRAMES[random.integers(3)] if random.random() < 0.4 else None
            options["module"] = "Net_0" if options["kind"] == EventKind.MODULE_CALL else None
            options["sequence_number"] = int(random.integers(-1, 4))
        end = None if random.random() < 0.05 else start + int(random.integers(0, 60))
        thread = str(random.choice(["main", "other"]))
        spans.append(span(str(random.choice(NAMES)), start, end, thread, **options))
    return spans


@pytest.mark.parametrize("seed", range(40))
def test_any_trace_has_findings_that_make_sense(seed):
    random = np.random.default_rng(seed)
    rows, rich = int(random.integers(1, 60)), bool(seed % 3)
    spans = random_spans(random, rows, rich)
    allocations = [
        allocation(float(time), int(random.integers(1, 1 << 21)), total_reserved_bytes=i << 20)
        for i, time in enumerate(np.sort(random.integers(0, 300, 9)))
    ]
    gpu = [
        kernel("sgemm", float(time), float(time) + 9, launch=int(random.integers(-1, rows)))
        for time in np.sort(random.integers(0, 300, 5))
    ]
    trace = build_trace(
        spans, allocations=allocations if seed % 2 else (), gpu=gpu if seed % 5 == 0 else ()
    )
    findings = find_findings(trace)
    hold_order(findings)
    for finding in findings:
        assert finding.occurrences == len(finding.events) > 0
        assert finding.events.min() >= 0 and finding.events.max() < rows
        assert finding.time_ns >= 0 and (finding.saved_ns is None or finding.saved_ns >= 0)
        assert sum(place.occurrences for place in finding.places) <= finding.occurrences
    json.dumps(findings.as_dict())
    known = {one.id for one in findings} | set(findings.absent)
    assert known | {one.id for one in findings.unchecked} >= {one.id for one in all_patterns()}
