"""What goes with operators that a fix takes away."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.subject import Subject
from opscope.analysis.findings.surroundings import freeing_ns, with_surroundings_ns
from opscope.trace.codes import EventKind, RecordScope
from support.build_trace import allocation, build_trace, span, tensor

PYTHON = {"kind": EventKind.PYTHON_CALL}
PROGRAM = ("train.py", 1, "train")
LIBRARY = ("/site-packages/torch/nn/modules/linear.py", 1, "forward")
LARGE = 1 << 20


def gone(trace, *rows):
    return with_surroundings_ns(Subject(trace), np.array(rows)) / 1000


def test_an_operator_alone_goes_with_the_python_on_the_way_to_it():
    trace = build_trace([
        span("train", 0, 1_000, frame=PROGRAM, **PYTHON),
        span("aten::mm", 100, 200, caller=PROGRAM, line=3),
        span("aten::add", 230, 300, caller=PROGRAM, line=4),
        span("aten::mm", 800, 900, caller=PROGRAM, line=5),
    ])  # fmt: skip
    assert gone(trace, 2) == 70 + 30


def test_python_that_was_interrupted_on_the_way_to_one_of_many_does_not_go():
    starts = (110, 210, 310, 9_310, 9_410)  # 9 ms before the fourth: another thread had the GIL
    calls = [span("aten::ones", at, at + 90, caller=PROGRAM, line=3) for at in starts]
    trace = build_trace([span("train", 0, 9_600, frame=PROGRAM, **PYTHON), *calls])
    assert gone(trace, 1, 2, 3, 4, 5) == 5 * 90 + 3 * 10 + 4 * 10


def test_a_call_goes_with_the_operators_that_are_nearly_all_of_it():
    inner = [
        span("train", 0, 1_000, frame=PROGRAM, **PYTHON),
        span("aten::mm", 0, 100, caller=PROGRAM, line=2),
        span("forward", 120, 400, frame=LIBRARY, caller=PROGRAM, line=3, **PYTHON),
        span("aten::linear", 150, 350),
        span("aten::mm", 500, 900, caller=PROGRAM, line=4),
    ]
    assert gone(build_trace(inner), 3) == 280 + 20
    other = [*inner[:4], span("aten::add", 360, 365), inner[4]]  # small, but not one of ten
    assert gone(build_trace(other), 3) == 200


def test_a_copy_that_a_product_makes_goes_without_the_product():
    trace = build_trace([
        span("train", 0, 1_000, frame=PROGRAM, **PYTHON),
        span("aten::matmul", 100, 900, caller=PROGRAM, line=3),
        span("aten::mm", 110, 890),
        span("aten::clone", 120, 520),
    ])  # fmt: skip
    assert gone(trace, 3) == 400


def test_freeing_large_blocks_goes_too_where_nothing_else_ran():
    def freed(size):
        return build_trace(
            [span("aten::mm", 0, 100), span("aten::add", 150, 200), span("aten::mm", 300, 400)],
            allocations=[
                allocation(10, size, allocation_id=1, address=1),
                allocation(160, LARGE, allocation_id=2, address=2),
                allocation(250, -size, allocation_id=1, address=1),
                allocation(280, -LARGE, allocation_id=2, address=2),
            ],
        )

    assert gone(freed(LARGE), 0) == 100 + 100
    assert gone(freed(64), 0) == 100
    assert gone(freed(LARGE), 2) == 100
    assert freeing_ns(Subject(freed(LARGE)), np.array([0])) == 100_000


def test_what_frees_a_dense_gradient_goes_with_it():
    table, indices = tensor(4_000, 100), tensor(10, dtype="int64")
    backward = span("aten::embedding_dense_backward", 0, 100, inputs=[table, indices, 4_000])
    spans = [backward, span("aten::add", 150, 200), span("aten::mm", 300, 400)]
    rows = [
        allocation(10, LARGE, allocation_id=1, address=1),
        allocation(250, -LARGE, allocation_id=1, address=1),
    ]
    kept, freed = (
        find_findings(build_trace(spans, allocations=rows[:count]))["dense-embedding-gradients"]
        for count in (1, 2)
    )
    assert freed.time_ns - kept.time_ns == 100_000
    assert freed.saved_ns - kept.saved_ns == pytest.approx(100_000 * (1 - 10 / 4_000), abs=1)


def test_a_fused_call_saves_what_is_between_the_products_and_some_of_these():
    query = tensor(1, 100, 16, storage=64, impl=64)
    scores, weights = (tensor(1, 100, 100, storage=i, allocation_id=i, impl=i) for i in (101, 102))
    spans = [
        span("aten::matmul", 0, 100, inputs=[query, query]),
        span("aten::softmax", 200, 300, inputs=[scores, -1, None]),
        span("aten::matmul", 400, 500, inputs=[weights, query]),
    ]
    blocks = [
        allocation(10 + 200 * i, 40_000, allocation_id=101 + i, address=101 + i) for i in range(2)
    ]
    finding = find_findings(build_trace(spans, allocations=blocks))["attention-by-hand"]
    assert finding.saved_ns == pytest.approx(100_000 + 0.3 * 100_000, abs=1)


def test_the_backward_pass_of_what_is_between_the_products_goes_as_well():
    query = tensor(1, 100, 16, storage=64, impl=64)
    scores, weights = (tensor(1, 100, 100, storage=i, allocation_id=i, impl=i) for i in (101, 102))
    back = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}
    spans = [
        span("aten::matmul", 0, 100, inputs=[query, query], sequence_number=1),
        span("aten::softmax", 200, 300, inputs=[scores, -1, None], sequence_number=2),
        span("aten::matmul", 400, 500, inputs=[weights, query], sequence_number=3),
        span("BmmBackward0", 600, 700, sequence_number=3, **back),
        span("SoftmaxBackward0", 800, 870, sequence_number=2, **back),
        span("BmmBackward0", 900, 950, sequence_number=1, **back),
    ]
    blocks = [
        allocation(10 + 200 * i, 40_000, allocation_id=101 + i, address=101 + i) for i in range(2)
    ]
    trace = build_trace(spans, allocations=blocks)
    finding = find_findings(trace, which="all")["attention-by-hand"]
    assert finding.saved_ns == pytest.approx(100_000 + 0.3 * 100_000 + 70_000, abs=1)
    assert "and its backward pass" in finding.saved_by


@pytest.mark.parametrize(
    ("first", "drops", "device", "is_found"),
    [
        ("aten::matmul", False, "cpu", True), ("aten::linear", False, "cpu", False),
        ("aten::matmul", True, "cpu", False), ("aten::matmul", True, "cuda", True),
    ],
)  # fmt: skip
def test_what_a_fused_call_would_not_do_is_no_attention_by_hand(first, drops, device, is_found):
    """On the CPU none drops values at random, and a layer that scores classes has no keys."""
    query = tensor(1, 100, 16, storage=64, impl=64)
    made = [
        tensor(1, 100, 100, storage=i, allocation_id=i, impl=i, device=device)
        for i in (101, 102, 103)
    ]
    spans = [
        span(first, 0, 100, inputs=[query, query]),
        span("aten::softmax", 200, 300, inputs=[made[0], -1, None]),
        span("aten::dropout", 310, 390, inputs=[made[1], 0.1, drops]),
        *[span("aten::bernoulli_", 320, 350)] * drops,
        span("aten::matmul", 400, 500, inputs=[made[2], query]),
    ]
    blocks = [
        allocation(
            at, 40_000, allocation_id=101 + i, address=101 + i, device_type=int(device != "cpu")
        )
        for i, at in enumerate((10, 210, 360))
    ]
    findings = find_findings(build_trace(spans, allocations=blocks))
    assert ("attention-by-hand" in [one.id for one in findings]) == is_found


def test_an_activation_by_hand_is_no_part_of_attention():
    query = tensor(1, 100, 16, storage=64, impl=64)
    made = [tensor(1, 100, 100, storage=i, allocation_id=i, impl=i) for i in range(101, 106)]
    spans = [
        span("aten::matmul", 0, 100, inputs=[query, query]),
        span("aten::mul", 200, 210, inputs=[made[0], made[0]]),
        span("aten::softmax", 220, 300, inputs=[made[1], -1, None]),
        span("aten::matmul", 400, 500, inputs=[made[2], query]),
        # What a product made is multiplied and added on, as in a GELU, and no softmax gets it.
        span("aten::mul", 600, 800, inputs=[made[3], made[3]]),
        span("aten::add", 900, 990, inputs=[made[4], made[3]]),
    ]
    starts = (10, 205, 230, 410, 610)
    blocks = [
        allocation(start, 40_000, allocation_id=101 + i, address=101 + i)
        for i, start in enumerate(starts)
    ]
    finding = find_findings(build_trace(spans, allocations=blocks))["attention-by-hand"]
    assert finding.events.tolist() == [1, 2, 3]


def test_a_region_of_compiled_code_is_no_constant():
    def repeated(name):
        spans = [span(name, i * 100, i * 100 + 90, inputs=[]) for i in range(4)]
        other = span("aten::mm", 400, 410, inputs=[tensor(2, 2, storage=64, impl=64)] * 2)
        blocks = [
            allocation(i * 100 + 10, 64, allocation_id=i + 1, address=i + 1) for i in range(4)
        ]
        return find_findings(build_trace([*spans, other], allocations=blocks))

    assert "repeated-constants" in {finding.id for finding in repeated("aten::tensor")}
    for name in ("Torch-Compiled Region: 0/0", "TorchDynamo Cache Lookup"):
        assert "repeated-constants" in repeated(name).absent
