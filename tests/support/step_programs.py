"""Traces of programs that do the same in every step, made up by hand, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.schema import EventKind
from support.build_trace import allocation, build_trace, span, tensor

OPTIONS = {"shapes": True, "modules": True, "memory": True}
BLOCKS = tuple(f"block{number}" for number in range(12))


def step_program(
    *,
    steps: int = 30,
    noise: float = 0.0,
    speed: float = 1.0,
    seed: int = 0,
    took_us: Mapping[str, float] | None = None,
    calls: Mapping[str, int] | None = None,
    width: Mapping[str, int] | None = None,
    without: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    change: Callable[[list[Any]], list[Any]] = lambda spans: spans,
) -> Trace:
    """A loop over twelve blocks, each of which calls ``aten::mm`` once; 10 µs are between them.

    Args:
        steps: how many are marked.
        noise: standard deviation of each time, as a share of it.
        speed: what all times are multiplied by.
        seed: of the noise.
        took_us: of the operator in a block, 100 unless given.
        calls: of the operator in a block, 1 unless given.
        width: of the matrix in a block, 8 unless given; a call allocates 64 bytes times that.
        without: blocks that are not called.
        metadata: more of it.
        change: what else happens to the spans before they become a trace.
    """
    random = np.random.default_rng(seed)
    spans, allocations, now = [], [], 0.0

    def passing(us: float) -> float:
        return us * speed * max(0.1, 1 + noise * random.standard_normal())

    for number in range(steps):
        begins, inner = now, []
        for block in (name for name in BLOCKS if name not in without):
            start = now
            now += passing(10)
            size = (width or {}).get(block, 8)
            for _ in range((calls or {}).get(block, 1)):
                end = now + passing((took_us or {}).get(block, 100.0))
                inner.append(span("aten::mm", now, end, inputs=[tensor(4, size), tensor(size, 4)]))
                allocations += [allocation(now, 64 * size), allocation(end, -64 * size)]
                now = end
            inner.append(span(block, start, now, kind=EventKind.MODULE_CALL, module=block))
        spans += [span(f"ProfilerStep#{number}", begins, now + 5), *inner]
        now += 5
    ordered = sorted(change(spans), key=lambda one: (one.start, -(one.end or 0)))
    return build_trace(
        ordered, allocations=allocations, metadata={"options": OPTIONS, **(metadata or {})}
    )


def rank_program(
    steps: int = 20, first: int = 0, work_us: float = 100, wait_us: float = 50, last_us: float = 0
) -> Trace:
    """A rank's steps of an operator and a collective; the last operator takes ``last_us`` more."""
    spans, each = [], work_us + wait_us
    for number in range(steps):
        start = number * each
        worked = start + work_us + (last_us if number == steps - 1 else 0)
        spans += [
            span(f"ProfilerStep#{first + number}", start, worked + wait_us),
            span("aten::mm", start, worked),
            span("c10d::allreduce_", worked, worked + wait_us),
        ]
    return build_trace(spans)
