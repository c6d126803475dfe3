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
    """Violations of the rules.

    Attributes:
        work: number of kernels, copies and sets checked.
        busy_ns: time with at least one busy stream, summed over devices.
        wall_ns: from the first begin to the last end, summed over devices.
        broken: violations of each rule, by its name in the ledger.
        is_noted: whether they matter; a few clock steps in another tool's file do not.
    """

    work: int
    busy_ns: int
    wall_ns: int
    broken: dict[str, Doubt]
    is_noted: bool

    @property
    def doubts(self) -> list[Doubt]:
        """Doubts about broken rules, with counts and the largest error."""
        return [doubt for doubt in self.broken.values() if doubt.count and self.is_noted]

    @property
    def ledger(self) -> dict[str, int]:
        """Rows of the ledger under ``device rules``."""
        counts = {f"broken: {name}": doubt.count for name, doubt in self.broken.items()}
        return {"work checked": self.work, **counts}


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
    twice = _duplicate_count(trace, rows, stream)
    streams = len(np.unique(stream))
    is_too_busy = int((end - start)[ordered].sum()) > wall_ns * max(streams, 1)
    broken_ns, work_ns = int(early.sum() + overlap.sum()), int((end - start).sum())
    work = len(rows)
    broken = {
        "begins before its launch": Doubt(
            "device activities begin before their launch",
            len(early),
            work,
            int(early.max(initial=0)),
        ),
        "overlaps others on its stream": Doubt(
            "device activities overlap others on their stream",
            len(overlap),
            work,
            int(overlap.max(initial=0)),
        ),
        "there twice": Doubt("device activities are duplicates", twice, work),
        "streams busy for longer than passed": Doubt(
            "streams are busy for longer than the elapsed time", streams * is_too_busy
        ),
    }
    is_noted = not is_imported or twice > 0 or broken_ns > _MIN_SHARE * work_ns
    return DeviceRules(work, busy_ns, wall_ns, broken, is_noted)


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
