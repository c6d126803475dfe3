"""Of a recording of some steps: how much of the program's time passes in steps like these.

The ends of all steps are seen while a program runs, recorded or not. Where steps come in bursts, as
in reinforcement learning or between evaluations, what lies between can be most of the time.
"""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.metadata_kinds import STEPS
from opscope.columns.trace_data import TraceData
from opscope.timeline.program_steps import program_steps

_NEARLY_ALL = 0.75
"""Steps take longer and shorter; less than this cannot be told from that."""


def share_of_program(trace: TraceData) -> float | None:
    """The share, 1 at most; None where that is not known."""
    seen, (steps, _) = trace.metadata.get(STEPS), program_steps(trace)
    took_ns = steps.end_ns - steps.start_ns
    if seen is None or seen["ended"] < 2 or not len(took_ns):
        return None
    passed_ns, inside_ns = seen["passed_ns"], (seen["ended"] - 1) * float(np.mean(took_ns))
    return min(inside_ns / passed_ns, 1.0) if passed_ns > 0 else None


def what_passes_between(trace: TraceData) -> str:
    """In words that follow what the recording is of; empty where it is nearly all of the time."""
    share = share_of_program(trace)
    if share is None or share >= _NEARLY_ALL:
        return ""
    between = share_text(1 - share)
    look = ": look there first" if share < 0.5 else ""
    return (
        f"steps like these are {share_text(share)} of the program's time from its first step to "
        f"its last, and {between} passes between steps, which was not recorded{look}"
    )
