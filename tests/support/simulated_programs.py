"""Small programs of a thread and a device, run on a machine that is simulated.

What they take, and would take with other durations, is computed by doing one thing after the other;
so it says what a graph that was found in their trace should say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.codes import EventKind
from support.build_trace import build_trace, kernel, span

LAUNCH_US = 5
"""What a call that launches takes; the device begins at its end, if it is free."""

SYNC_US = 1
"""What a call that waits takes once the device is done."""


@dataclass(frozen=True)
class Action:
    """``cpu``, ``launch`` or ``sync``; with a name, a duration and a stream where it has them."""

    kind: str
    name: str = ""
    took: int = 0
    stream: int = 7


def random_program(seed: int, length: int = 40) -> list[Action]:
    """Something like a loop that launches and sometimes waits."""
    random = np.random.default_rng(seed)
    actions = []
    for _ in range(length):
        kind = random.choice(["cpu", "launch", "launch", "sync"], p=[0.4, 0.25, 0.25, 0.1])
        name, took = f"{kind}_{random.integers(3)}", int(random.integers(20, 400))
        actions.append(Action(str(kind), name, took, int(random.choice([7, 8]))))
    return [*actions, Action("sync")]


def scaled(program: list[Action], name: str, factor: float) -> list[Action]:
    """The same with everything of one name taking a multiple."""
    return [
        replace(one, took=round(one.took * factor)) if one.name == name else one for one in program
    ]


def run(program: list[Action]) -> tuple[int, Trace]:
    """How long it takes, microseconds, and its trace."""
    now, free = 0, {7: 0, 8: 0}
    spans, works = [], []
    for one in program:
        if one.kind == "cpu":
            spans.append(span(f"aten::{one.name}", now, now + one.took))
            now += one.took
        elif one.kind == "launch":
            row = len(spans)
            spans.append(
                span("cudaLaunchKernel", now, now + LAUNCH_US, kind=EventKind.RUNTIME_CALL)
            )
            now += LAUNCH_US
            begin = max(now, free[one.stream])
            free[one.stream] = begin + one.took
            where = {"stream": one.stream, "launch": row}
            works.append(kernel(one.name, begin, free[one.stream], **where))
        else:
            done = max(now, *free.values()) + SYNC_US
            spans.append(span("cudaDeviceSynchronize", now, done, kind=EventKind.RUNTIME_CALL))
            now = done
    return now, build_trace(spans, gpu=works)
