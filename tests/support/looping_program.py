"""Pictures of a program whose function loops over the parts of a tensor."""

from __future__ import annotations

from opscope.columns.schema import EventKind
from support.build_trace import span, tensor
from support.findings_of_pictures import found as found

CALLER = ("train.py", 1, "train")
PYTHON = {"kind": EventKind.PYTHON_CALL}


def program(*inner, end):
    return [span("train", 0, end, frame=CALLER, **PYTHON), *inner]


def loop(rounds, each, gap=10, line=5, parts=True, start=0):
    """One operator in every round, each on another part of a tensor."""
    return [
        span("aten::mul", start + i * (each + gap) + gap, start + (i + 1) * (each + gap),
             caller=CALLER, line=line,
             inputs=[tensor(2, storage=64, storage_offset=2 * i if parts else 0)])
        for i in range(rounds)
    ]  # fmt: skip
