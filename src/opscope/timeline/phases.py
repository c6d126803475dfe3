"""Phase of each event: data loading, forward, backward, optimizer.

Found from the spans that torch itself emits (``enumerate(DataLoader)#...``, ``Optimizer.step#...``,
nodes of the autograd engine), so programs need no annotations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags
from opscope.timeline.tree.event_tree import event_arrays, event_tree


class Phase(IntEnum):
    """Part of a step, in the order in which reports show them."""

    DATA_LOADING = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    GARBAGE_COLLECTION = 4


PHASE_NAMES = ("data loading", "forward", "backward", "optimizer", "garbage collection")
"""Names by ``Phase``."""

NO_PHASE = -1

_PREFIXES = (
    ("enumerate(DataLoader)#", Phase.DATA_LOADING),
    ("Optimizer.step#", Phase.OPTIMIZER),
    ("Optimizer.zero_grad#", Phase.OPTIMIZER),
    ("autograd::engine::", Phase.BACKWARD),
    # Runs in callbacks that DDP queued for the end of the backward pass.
    ("torch.distributed.ddp.reducer::copy_bucket_to_grad", Phase.BACKWARD),
)
_ANY_PREFIX = tuple(prefix for prefix, _ in _PREFIXES)


@dataclass(frozen=True)
class Phases:
    """The phase of every event."""

    phase: npt.NDArray[np.int8]  # ``Phase`` or ``NO_PHASE``, shape (events,)
    # begin of a phase: the event directly around it is in another, or in none. The union of their
    # times is the time spent in the phase. Shape (events,)
    outermost: Flags
    around: npt.NDArray[np.int8]  # phase of the event around each, or ``NO_PHASE``


@derived
def find_phases(trace: TraceData) -> Phases:
    """Find phases from named spans; what runs inside them has the same phase.

    Cached for each trace.

    Inside means by nesting, or else by time: with recorded Python calls, an annotation begins
    within the call that opens it and ends after it, so later events are not nested in it. An
    operator inside none of these is forward work; Python calls and annotations then have no phase.
    """
    tree, events = event_tree(trace), trace.events
    threads = max(len(trace.table("threads")), int(events["thread"].max(initial=-1)) + 1)
    phase, outermost, around = _native.phases(
        event_arrays(trace),
        threads,
        np.ascontiguousarray(tree.start_ns),
        np.ascontiguousarray(tree.duration_ns),
        _by_name(trace),
        (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.GARBAGE_COLLECTION),
    )
    return Phases(phase, outermost, around)


def _by_name(trace: TraceData) -> npt.NDArray[np.int8]:
    """Phase of each name's events; the last entry is for events without a name."""
    found = np.full(len(trace.names) + 1, NO_PHASE, dtype=np.int8)
    for row, text in enumerate(trace.names):
        if text.startswith(_ANY_PREFIX):
            found[row] = next(phase for prefix, phase in _PREFIXES if text.startswith(prefix))
    return found
