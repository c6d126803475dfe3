"""Short ways to record something and to say what a trace holds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import opscope
from opscope.api.trace import Trace


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage collections but those asked for: opscope records them, and torch does not."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def record(program: Callable[[], Any], **options: Any) -> Trace:
    """The trace of calling ``program``, without garbage collections it does not ask for."""
    with without_collections(), opscope.profile(**options) as prof:
        program()
    return prof.trace


def names(trace: Trace) -> list[str]:
    """Names of all events, in order."""
    return [trace.event_name(row) for row in range(len(trace.events))]


def count(trace: Trace, name: str) -> int:
    """How many events have a name."""
    return int((trace.events["name"] == trace.names.find(name)).sum())


def steps_of(trace: Trace) -> int:
    """How many steps of an SGD optimizer there are."""
    return count(trace, "Optimizer.step#SGD.step")


def parents(trace: Trace) -> dict[str, str]:
    """Name of every event to the name of what it ran in; "" at top level. Later ones win."""
    parent = trace.events["parent"]
    return {
        trace.event_name(row): trace.event_name(parent[row]) if parent[row] >= 0 else ""
        for row in range(len(parent))
    }
