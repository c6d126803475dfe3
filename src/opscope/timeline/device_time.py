"""Device time: what the GPU did for each event, and what it did at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import EventKind, GpuKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.listing import TorchListing
from opscope.timeline.tree.ancestry import subtree_sums

Values = npt.NDArray[np.int64]

KERNEL, COPY, SET, SYNCHRONISATION, ANNOTATION = GpuKind

WORK_KINDS = (KERNEL, COPY, SET)
"""Kinds during which the device computes or moves data."""


def launched_work(trace: TraceData) -> Values:
    """Rows in ``gpu`` of work whose launch is known. Shape (work,)."""
    gpu = trace.table("gpu")
    return np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS) & (gpu["launch"] >= 0))


def launched_share(trace: TraceData) -> float:
    """Of the time of devices' work, that of which the launch is known; 1 without any work."""
    took_ns, launched = trace.table("gpu")["duration_ns"], launched_work(trace)
    total_ns = int(took_ns[np.isin(trace.table("gpu")["kind"], WORK_KINDS)].sum())
    return int(took_ns[launched].sum()) / total_ns if total_ns > 0 else 1.0


@dataclass(frozen=True)
class DeviceTime:
    """Device nanoseconds per event, shape (events,)."""

    total_ns: Values  # of work launched during the event
    # of work the event launched itself, outside its listed children. As in torch's tables, a
    # runtime call has none where an operator or annotation made it
    self_ns: Values
    launched: Values  # for every row of ``gpu`` the event it counts for, -1 none. Shape (gpu rows,)


def measure_device_time(listing: TorchListing) -> DeviceTime:
    """Attribute device work to the events that launched it."""
    gpu = listing.trace.table("gpu")
    events = len(listing.trace.events)
    launch = gpu["launch"]
    launched = np.full(len(gpu), -1, dtype=np.int64)
    known = (launch >= 0) & np.isin(gpu["kind"], WORK_KINDS)
    launched[known] = listing.holder[_askers(listing)[launch[known]]]
    own = np.zeros(events, dtype=np.int64)
    counted = launched >= 0
    np.add.at(own, launched[counted], gpu["duration_ns"][counted])
    if not counted.any():
        return DeviceTime(own, own, launched)
    return DeviceTime(subtree_sums(listing.listed_parent, own), own, launched)


def _askers(listing: TorchListing) -> Values:
    """For every event itself; for calls of a device's runtime the event that made them, if any."""
    events = listing.trace.events
    asker = np.arange(len(events), dtype=np.int64)
    is_call = events["kind"] == EventKind.RUNTIME_CALL
    for _ in range(2):  # a driver call may be inside a runtime call: two levels
        inside = np.flatnonzero(is_call[asker] & (events["parent"][asker] >= 0))
        asker[inside] = events["parent"][asker[inside]]
    return asker


def listed_gpu_rows(listing: TorchListing) -> Values:
    """Rows of ``gpu`` that torch lists as events of their own: all but synchronisations."""
    return np.flatnonzero(listing.trace.table("gpu")["kind"] != SYNCHRONISATION)
