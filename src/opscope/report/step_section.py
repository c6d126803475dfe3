"""Training steps side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.analysis.account.find import find_account
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData
from opscope.report.shown_text import shown
from opscope.timeline.listing import TorchListing
from opscope.timeline.period import Which
from opscope.timeline.phases import PHASE_NAMES
from opscope.timeline.program_steps import program_steps
from opscope.timeline.step_times import step_times

MOST_STEPS = 1000
"""Steps shown; of more, the first ones."""


def step_section(trace: TraceData, listing: TorchListing, start_ns: int) -> dict[str, Any] | None:
    """Duration, phases, causes and top operators of every step; None without steps."""
    steps, what = program_steps(trace)
    # Those of a schedule are recorded with every event.
    times = step_times(trace, listing, steps=steps if what else None)
    count = min(len(times.steps), MOST_STEPS)
    if not count:
        return None
    return {
        "what": what,
        "number": times.steps.number[:count].tolist(),
        "start": (times.steps.start_ns[:count] - start_ns).tolist(),
        "duration": times.duration_ns[:count].tolist(),
        "busy": times.busy_ns[:count].tolist(),
        "deviceBusy": times.device_ns[:count].tolist(),
        "events": times.events[:count].tolist(),
        "phases": list(PHASE_NAMES),
        "phaseTimes": times.phase_ns[:count].tolist(),
        **_causes(trace, count),
        "labels": [shown(label) for label in times.labels],
        "labelTimes": times.label_ns[:count].tolist(),
        "allSteps": len(times.steps),
    }


def _causes(trace: TraceData, count: int) -> dict[str, Any]:
    """What the main thread's time in each step went to: only causes that any step has."""
    table = find_account(trace, Which.ALL).table()[:count]
    used = np.flatnonzero(table.any(axis=0)).tolist()
    return {
        "causes": [Cause(cause).title for cause in used],
        "causeMeanings": [Cause(cause).meaning for cause in used],
        "causeTimes": table[:, used].tolist(),
    }
