"""What nodes of a Chakra trace wait for, beside the node before them on their thread.

A dependency is a row of ``events``, or ``-1 - row`` for the activities of devices that are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.export.native_columns import row_ranges
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import EventKind, Role
from opscope.trace.trace import Trace

Rows = npt.NDArray[np.int64]
Pairs = tuple[Rows, Rows]
"""The row that waits, and the row it waits for."""


def ragged(pairs: Pairs, count: int, prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Pairs as ``prefix.rows`` and ``prefix.event``, each once."""
    waiting, cause = pairs
    waiting, cause = group_rows(waiting, cause).columns
    return {f"{prefix}.rows": row_ranges(waiting, count), f"{prefix}.event": cause}


def joined(*several: Pairs) -> Pairs:
    """All of them."""
    waiting, cause = zip(*several, strict=True)
    return np.concatenate(waiting), np.concatenate(cause)


def data_of_other_threads(trace: Trace, transfers: Mapping[int, int]) -> Pairs:
    """Operators that take what another thread made: they wait for the last to have written it.

    ``transfers`` says which event really writes the results of another.
    """
    events, tensors = trace.events, trace.table("tensors")
    event, role = tensors["event"], tensors["role"]
    rows = np.flatnonzero((tensors["storage"] != 0) & (event >= 0) & (event < len(events)))
    is_output = np.isin(role[rows], (Role.OUTPUT, Role.OUTPUT_PART))
    event = event[rows].astype(np.int64)
    for operator, transfer in transfers.items():
        event[(event == operator) & is_output] = transfer
    if len(np.unique(events["thread"][event])) < 2:
        return _nothing()
    time_ns = events["start_ns"][event] + np.where(is_output, events["duration_ns"][event], 0)
    _, storage = np.unique(tensors["storage"][rows], return_inverse=True)
    # Accesses in order of storage and time; of several at one time, writes before reads.
    order = np.lexsort((~is_output, time_ns, storage.reshape(-1)))
    storage, event, is_output = storage.reshape(-1)[order], event[order], is_output[order]
    place = np.where(is_output, np.arange(len(order)), -1)
    last = np.maximum.accumulate(place)
    readers = np.flatnonzero(~is_output & (last >= 0))
    readers = readers[storage[last[readers]] == storage[readers]]
    reader, writer = event[readers], event[last[readers]]
    elsewhere = events["thread"][reader] != events["thread"][writer]
    return reader[elsewhere], writer[elsewhere]


def synchronisations(trace: Trace, gpu_rows: Rows) -> Pairs:
    """What runs after a thread waited for a device: it waits for the last activity per stream."""
    events, gpu = trace.events, trace.table("gpu")
    calls = np.flatnonzero(events["kind"] == EventKind.RUNTIME_CALL)
    calls = np.array(
        [row for row in calls.tolist() if "Synchronize" in trace.event_name(row)], dtype=np.int64
    )
    if not len(calls) or not len(gpu_rows):
        return _nothing()
    end = (gpu["start_ns"] + gpu["duration_ns"])[gpu_rows]
    streams = _streams(trace, gpu_rows)
    nodes = np.flatnonzero(events["kind"] <= EventKind.ANNOTATION)
    waiting, cause = [], []
    for call in calls.tolist():
        done = int(events["start_ns"][call] + events["duration_ns"][call])
        same = nodes[events["thread"][nodes] == events["thread"][call]]
        after = np.searchsorted(events["start_ns"][same], done)
        if after == len(same):
            continue
        for stream in np.unique(streams).tolist():
            finished = np.flatnonzero((streams == stream) & (end <= done))
            if len(finished):
                waiting.append(int(same[after]))
                cause.append(-1 - int(finished[np.argmax(end[finished])]))
    return np.array(waiting, dtype=np.int64), np.array(cause, dtype=np.int64)


def order_on_streams(trace: Trace, gpu_rows: Rows) -> Pairs:
    """Each activity of a device waits for the one before it on its stream."""
    start = trace.table("gpu")["start_ns"][gpu_rows]
    streams = _streams(trace, gpu_rows)
    order = np.lexsort((start, streams))
    follows = np.flatnonzero(streams[order][1:] == streams[order][:-1])
    return order[follows + 1].astype(np.int64), -1 - order[follows].astype(np.int64)


def _streams(trace: Trace, gpu_rows: Rows) -> Rows:
    """One number per device and stream."""
    gpu = trace.table("gpu")
    device = gpu["device_index"][gpu_rows].astype(np.int64)
    return (device << 32) + gpu["stream"][gpu_rows]


def _nothing() -> Pairs:
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
