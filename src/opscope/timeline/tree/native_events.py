"""Columns of events as native code takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.columns.trace_data import TraceData


def event_arrays(trace: TraceData) -> _native.EventArrays:
    """What tells how events nest and what they are, column by column. Shapes (events,)."""

    def column(name: str) -> npt.NDArray[Any]:
        return np.ascontiguousarray(trace.events[name])

    return (
        column("parent"),
        column("thread"),
        column("name"),
        column("kind"),
        column("scope"),
        column("sequence_number"),
        column("forward_thread"),
    )


def numbers_of_threads(trace: TraceData) -> npt.NDArray[np.int64]:
    """torch's id of every thread, by its row; shape (threads,)."""
    known = trace.table("threads")["torch_thread_id"]
    if len(known):
        return np.ascontiguousarray(known, dtype=np.int64)
    # Traces of other tools may have no threads table: take the row as the id.
    return np.arange(int(trace.events["thread"].max(initial=-1)) + 1)
