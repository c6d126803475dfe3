"""Which cause the own time of every event has, by what the event is and what it runs in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.frame_text import event_texts
from opscope.timeline.waits import cause_of_name

Around = npt.NDArray[np.signedinteger[Any]]
Causes = npt.NDArray[np.int8]

AS_AROUND = -1
"""An annotation's own time, and a step's, is that of whatever it is in."""


def causes_of_events(trace: TraceData, around: Around) -> Causes:
    """The cause of the own time of every event, ``AS_AROUND`` where it has none of its own.

    Args:
        trace: any.
        around: the span directly around each event by time, -1 for none.
    """
    label, texts = event_texts(trace)
    events, names = trace.events, trace.names
    by_label = np.array([*map(_of_name, texts), AS_AROUND], dtype=np.int8)
    is_engine = [text.startswith("autograd::engine::") for text in names]
    kind, scope, name = (np.ascontiguousarray(events[one]) for one in ("kind", "scope", "name"))
    return _native.causes_of_events(
        kind,
        scope,
        name,
        label,
        np.ascontiguousarray(around, dtype=np.int32),
        by_label,
        np.array([*is_engine, False]),
    )


def _of_name(text: str) -> int:
    cause = cause_of_name(text).cause
    return AS_AROUND if cause is None else cause
