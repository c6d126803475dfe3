"""What goes with operators that a fix takes away."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Subject
from opscope.analysis.findings.surroundings import with_surroundings_ns
from opscope.trace.codes import EventKind
from support.build_trace import allocation, build_trace, span

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
