"""When collectives of a process were under way on a thread of their own, as gloo's are."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_TRANSFERS = re.compile(r"(gloo|nccl|mpi|ucc):")
"""What backends call the spans of their own threads, in which data goes from rank to rank."""


def transfers(trace: TraceData) -> Values:
    """From when to when any was: disjoint, in order. Shape (stretches, 2), Unix nanoseconds."""
    named = np.array([bool(_TRANSFERS.match(name)) for name in trace.names] + [False])
    rows = np.flatnonzero(named[trace.events["name"]]) if named.any() else np.zeros(0, dtype=int)
    return stretches_of(trace, rows)


def stretches_of(trace: TraceData, rows: Values, apart_ns: int = 0) -> Values:
    """From when to when any of some events, in order of start, goes on: disjoint, in order.

    Args:
        trace: any.
        rows: of ``events``.
        apart_ns: what is no further apart is one stretch.

    Returns:
        Unix nanoseconds, shape (stretches, 2).
    """
    start = trace.events["start_ns"][rows].astype(np.int64)
    end = np.maximum.accumulate(start + np.maximum(trace.events["duration_ns"][rows], 0))
    if not len(start):
        return np.zeros((0, 2), dtype=np.int64)
    begins = np.append(True, start[1:] > end[:-1] + apart_ns)
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(start) - 1)
    return np.stack([start[begins], end[last]], axis=1)


def is_within(moments_ns: Values, stretches: Values) -> Flags:
    """Which moments are in one of the stretches. Shape as ``moments_ns``."""
    place = np.searchsorted(stretches[:, 0], moments_ns, side="right") - 1
    found: Flags = place >= 0
    if len(stretches):
        found = found & (moments_ns < stretches[place, 1])
    return found
