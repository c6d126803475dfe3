"""Sequence numbers of autograd's evaluations, which torch records on the node inside only.

``autograd::engine::evaluate_function: MmBackward0`` has none of its own; Kineto's files show that
of the ``MmBackward0`` in it, and readers tell forward from backward by it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData

_PREFIX = b"autograd::engine::evaluate_function: "


def backward_numbers(trace: TraceData) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """``events.sequence_number`` and ``events.forward_thread``, also for evaluations."""
    events = trace.events
    number, thread, parent = (
        events[name] for name in ("sequence_number", "forward_thread", "parent")
    )
    is_evaluation = _names_with_prefix(trace.names)[events["name"]]
    is_evaluation &= number < 0
    if not is_evaluation.any():
        return number, thread
    nodes = np.flatnonzero((number >= 0) & (parent >= 0) & (parent < len(events)))
    nodes = nodes[is_evaluation[parent[nodes]]][::-1]  # of several, the first one is written last
    number, thread = number.copy(), thread.copy()
    number[parent[nodes]] = number[nodes]
    thread[parent[nodes]] = thread[nodes]
    return number, thread


def _names_with_prefix(names: Names) -> npt.NDArray[np.bool_]:
    """For every name, and then for -1, whether it begins with the prefix."""
    found = np.zeros(len(names) + 1, dtype=np.bool_)
    offsets, position = names.offsets, -1
    while (position := names.blob.find(_PREFIX, position + 1)) >= 0:
        # The name that holds this byte; empty names begin there too, before it.
        row = int(np.searchsorted(offsets, position, side="right")) - 1
        found[row] = offsets[row] == position and position + len(_PREFIX) <= offsets[row + 1]
    return found
