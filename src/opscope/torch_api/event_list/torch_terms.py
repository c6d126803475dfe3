"""Adaptations to torch's terms: names, step boundaries, averages."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.concat import in_order_of_start
from opscope.columns.names import Names
from opscope.columns.schema import TABLES, EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.steps import find_steps

GC_PAUSE = "Python GC"

Columns = dict[str, Any]


def in_torch_terms(trace: TraceData, adjust_steps: bool) -> TraceData:
    """``trace`` with torch's name for garbage collections and, if requested, adjusted steps."""
    changed, names = _gc_pauses_renamed(trace)
    if adjust_steps:
        changed |= _steps_adjusted(trace)
    if not changed:
        return trace
    tables = {name: trace.table(name) for name in TABLES}
    tables["events"] = tables["events"].replaced(changed)
    adapted = TraceData(tables, names)
    return TraceData({**tables, **in_order_of_start(adapted)}, names) if adjust_steps else adapted


def averages_python_functions() -> bool:
    """Whether this torch averages Python calls by default: until 2.13; True without torch."""
    profiler = sys.modules.get("torch.profiler.profiler")
    if profiler is None:
        return True
    method = profiler._KinetoProfile.key_averages
    return "include_python_functions" not in inspect.signature(method).parameters


def _gc_pauses_renamed(trace: TraceData) -> tuple[Columns, Names]:
    names = trace.names
    pauses = np.flatnonzero(trace.events["kind"] == EventKind.GC_PAUSE)
    if not len(pauses):
        return {}, names
    name = trace.events["name"].copy()
    name[pauses] = len(names)
    return {"name": name}, names.followed_by(Names.from_strings([GC_PAUSE]))


def _steps_adjusted(trace: TraceData) -> Columns:
    """Columns in which each step begins with the Python call in which it ends.

    A step begins inside one call of ``step()`` and ends inside the next, which is inside a function
    that began in between. torch's ``adjust_profiler_step`` moves the begin of the step to 1 ns
    after the outermost such function, so that the two nest; earlier events leave the step.
    """
    events, steps = trace.events, find_steps(trace)
    start, duration = events["start_ns"].copy(), events["duration_ns"].copy()
    parent = events["parent"].copy()
    for step, end_ns in zip(steps.event.tolist(), steps.end_ns.tolist(), strict=True):
        call = _call_at_end(trace, step, end_ns)
        if call < 0:
            continue
        start[step] = start[call] + 1
        duration[step] = end_ns - start[step]
        earlier = np.flatnonzero((events["parent"] == step) & (events["start_ns"] < start[step]))
        parent[earlier] = events["parent"][step]
    return {"start_ns": start, "duration_ns": duration, "parent": parent}


def _call_at_end(trace: TraceData, step: int, end_ns: int) -> int:
    """The first Python call that begins in a step, on its thread, and outlives it; -1 if none."""
    events = trace.events
    first = step + 1
    last = int(np.searchsorted(events["start_ns"], end_ns - 1))
    rows = slice(first, max(first, last))
    outlives: npt.NDArray[np.bool_] = (
        (events["kind"][rows] == EventKind.PYTHON_CALL)
        & (events["thread"][rows] == events["thread"][step])
        & (trace.end_ns[rows] > end_ns)
    )
    rows_outliving = np.flatnonzero(outlives)
    return first + int(rows_outliving[0]) if len(rows_outliving) else -1
