"""Rules for device activity of any recorder; if one is broken, the times are doubtful.

1. Work begins after the call that launched it.
2. On one stream, work ends before the next begins. Branches of a CUDA graph may overlap, and
   kernels whose launch can permit it (programmatic dependent launch).
3. Per stream, the work that may not overlap takes at most the elapsed time.
4. Each activity occurs once.

They are checked when a trace is made; its ledger counts the violations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import DeviceType, GpuKind
from opscope.columns.ledger import Doubt
from opscope.columns.trace_data import TraceData

Values = npt.NDArray[np.int64]

_MAY_OVERLAP = ("cudaLaunchKernelExC", "cuLaunchKernelEx")
"""Calls that launch a kernel with attributes; one permits overlap with the previous kernel."""

TOLERANCE_NS = 2  # Rounding: device clock, recorder ticks and nanoseconds are integers
_MIN_SHARE = 0.001  # share of all work time above which broken rules of imported traces count
IMPORTED_TOLERANCE_NS = 1000
"""Tolerance for files of other tools: their times are microseconds, whole ones in older files."""


@dataclass(frozen=True)
class DeviceRules:
    """Number of violations of each rule.

    Attributes:
        work: number of kernels, copies and sets checked.
        before_launch: number that begin before their launch.
        overlapping: number that begin before the previous work on their stream ends.
        twice: number of duplicates.
        busy_ns: time with at least one busy stream, summed over devices.
        work_ns: sum of all durations.
        ordered_ns: sum of the durations of work that may not overlap on its stream.
        wall_ns: from the first begin to the last end, summed over devices.
        streams: number of streams with work, over all devices.
        earliest_ns: largest time from the begin of work to its later launch.
        overlap_ns: largest overlap on a stream.
        is_noted: whether the errors matter; a few clock steps in another tool's file do not.
    """

    work: int
    before_launch: int
    overlapping: int
    twice: int
    busy_ns: int
    work_ns: int
    ordered_ns: int
    wall_ns: int
    streams: int
    earliest_ns: int
    overlap_ns: int
    is_noted: bool

    @property
    def too_busy(self) -> bool:
        """Whether the streams had more work than time."""
        return self.ordered_ns > self.wall_ns * max(self.streams, 1)

    @property
    def doubts(self) -> list[Doubt]:
        """Doubts about broken rules, with counts and the largest error."""
        all_doubts = [
            Doubt(
                "device activities begin before their launch",
                self.before_launch,
                self.work,
                self.earliest_ns,
            ),
            Doubt(
                "device activities overlap others on their stream",
                self.overlapping,
                self.work,
                self.overlap_ns,
            ),
            Doubt("device activities are duplicates", self.twice, self.work),
            Doubt(
                "streams are busy for longer than the elapsed time", self.streams * self.too_busy
            ),
        ]
        return [doubt for doubt in all_doubts if doubt.count and self.is_noted]

    @property
    def ledger(self) -> dict[str, int]:
        """Rows of the ledger under ``device rules``."""
        return {
            "work checked": self.work,
            "broken: begins before its launch": self.before_launch,
            "broken: overlaps others on its stream": self.overlapping,
            "broken: there twice": self.twice,
            "broken: streams busy for longer than passed": int(self.too_busy),
        }


def check_device_rules(trace: TraceData) -> DeviceRules:
    """Check every row of ``gpu`` that is work."""
    gpu = trace.table("gpu")
    rows = np.flatnonzero(gpu["kind"] <= GpuKind.SET)
    start = gpu["start_ns"][rows]
    end = start + gpu["duration_ns"][rows]
    device = gpu["device_index"][rows].astype(np.int64)
    stream = (device << 32) + (gpu["stream"][rows].astype(np.int64) & 0xFFFFFFFF)
    clock_error = trace.ledger.get("gpu", {}).get("clock error_ns", 0.0)
    is_imported = "imported_from" in trace.table("metadata")["key"].tolist()
    tolerance = IMPORTED_TOLERANCE_NS if is_imported else TOLERANCE_NS
    tolerance += int(np.ceil(clock_error))
    busy_ns, wall_ns = _busy_and_wall(device, start, end)
    ordered = ~_may_overlap(trace, rows)
    early = _before_launch(trace, rows, tolerance)
    overlap = _overlapping(stream, start, end, ordered, tolerance)
    broken_ns, work_ns = int(early.sum() + overlap.sum()), int((end - start).sum())
    twice = _duplicate_count(trace, rows, stream)
    return DeviceRules(
        work=len(rows),
        before_launch=len(early),
        overlapping=len(overlap),
        twice=twice,
        busy_ns=busy_ns,
        work_ns=work_ns,
        ordered_ns=int((end - start)[ordered].sum()),
        wall_ns=wall_ns,
        streams=len(np.unique(stream)),
        earliest_ns=int(early.max(initial=0)),
        overlap_ns=int(overlap.max(initial=0)),
        is_noted=not is_imported or twice > 0 or broken_ns > _MIN_SHARE * work_ns,
    )


def _before_launch(trace: TraceData, rows: Values, tolerance: int) -> Values:
    """Nanoseconds by which work begins before its launch, shape (violations,)."""
    gpu = trace.table("gpu")
    launch = gpu["launch"][rows]
    valid = (launch >= 0) & (launch < len(trace.events))
    early_ns: Values = trace.events["start_ns"][launch[valid]] - gpu["start_ns"][rows][valid]
    return early_ns[early_ns > tolerance]


def _may_overlap(trace: TraceData, rows: Values) -> npt.NDArray[np.bool_]:
    gpu, events = trace.table("gpu"), trace.events
    launch = gpu["launch"][rows]
    has_launch = (launch >= 0) & (launch < len(events))
    result: npt.NDArray[np.bool_] = gpu["graph_node"][rows] != 0
    # The meaning of streams of other devices is unknown.
    result |= gpu["device_type"][rows] != DeviceType.CUDA
    calls = [name for text in _MAY_OVERLAP if (name := trace.names.find(text)) >= 0]
    result[has_launch] |= np.isin(events["name"][launch[has_launch]], calls)
    return result


def _overlapping(
    stream: Values, start: Values, end: Values, ordered: npt.NDArray[np.bool_], tolerance: int
) -> Values:
    """Nanoseconds by which work overlaps the previous work on its stream, shape (violations,)."""
    order = np.lexsort((end, start, stream))
    stream, start, end, ordered = stream[order], start[order], end[order], ordered[order]
    same = stream[1:] == stream[:-1]
    overlap: Values = end[:-1] - start[1:]
    violations: Values = overlap[same & ordered[1:] & (overlap > tolerance)]
    return violations


def _duplicate_count(trace: TraceData, rows: Values, stream: Values) -> int:
    gpu = trace.table("gpu")
    start = gpu["start_ns"][rows]
    alike = np.flatnonzero(np.diff(start[np.argsort(start, kind="stable")]) == 0)
    if not len(alike):  # the usual case
        return 0
    columns = [gpu[name][rows].astype(np.int64) for name in _IDENTITY]
    order = np.lexsort((*columns, stream))
    same = stream[order][1:] == stream[order][:-1]
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    return int(np.count_nonzero(same))


_IDENTITY = ("correlation_id", "graph_node", "start_ns", "duration_ns", "name", "kind")


def _busy_and_wall(device: Values, start: Values, end: Values) -> tuple[int, int]:
    """Union of the spans of each device, and time from first begin to last end; both summed."""
    busy = wall = 0
    for index in np.unique(device):
        rows = np.flatnonzero(device == index)
        rows = rows[np.argsort(start[rows], kind="stable")]
        reached = np.maximum.accumulate(end[rows])
        before = np.concatenate([start[rows[:1]], reached[:-1]])
        busy += int(np.maximum(end[rows] - np.maximum(start[rows], before), 0).sum())
        wall += int(reached[-1] - start[rows[0]])
    return busy, wall
