"""Rules that device activity of any recorder has to keep; if one is broken, its times are doubtful.

1. no work begins before the call that launched it
2. on one stream, one piece of work ends before the next begins; branches of a CUDA graph may
   overlap, and so may kernels whose launch can ask for it (programmatic dependent launch)
3. over any streams, busy time is at most the time that passed; for what may not overlap
4. no piece of work is there twice

They are checked when a trace is made, and how often each is broken is in its ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.trace.codes import GpuKind
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]

_MAY_OVERLAP = ("cudaLaunchKernelExC", "cuLaunchKernelEx")
"""Calls that launch a kernel with attributes; one of those lets it begin before the last ends."""

TOLERANCE_NS = 2
"""Rounding: a device's clock, the recorder's ticks and nanoseconds are each whole numbers."""


@dataclass(frozen=True)
class DeviceRules:
    """How often each rule is broken.

    Attributes:
        work: kernels, copies and sets that were checked.
        before_launch: of them, how many begin before their launch.
        overlapping: how many begin on a stream before the one before them there ended.
        twice: how many are there already.
        busy_ns: device time in which at least one stream of a device was busy, over all devices.
        work_ns: sum of all durations.
        ordered_ns: of it, of work that may not overlap on its stream.
        wall_ns: from the first beginning to the last end, summed over devices.
        streams: pairs of device and stream that had work.
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

    @property
    def too_busy(self) -> bool:
        """More work on the streams than there was time."""
        return self.ordered_ns > self.wall_ns * max(self.streams, 1)

    @property
    def broken(self) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        counts = {
            "begin before their launch": self.before_launch,
            "overlap others on their stream": self.overlapping,
            "are there twice": self.twice,
        }
        texts = [f"{count:,} {what}" for what, count in counts.items() if count]
        return [*texts, "streams are busy for longer than passed"] if self.too_busy else texts

    @property
    def ledger(self) -> dict[str, int]:
        """What the ledger of a trace says of this, under ``device rules``."""
        return {
            "work checked": self.work,
            "broken: begins before its launch": self.before_launch,
            "broken: overlaps others on its stream": self.overlapping,
            "broken: there twice": self.twice,
            "broken: streams busy for longer than passed": int(self.too_busy),
        }

    def describe(self) -> str:
        """One line for people."""
        if not self.work:
            return "no device work"
        verdict = f"BROKEN RULES: {'; '.join(self.broken)}" if self.broken else "all rules kept"
        share = self.busy_ns / self.wall_ns if self.wall_ns else 0.0
        busy = f"busy {share:.1%} from the first to the last"
        return f"{self.work:,} pieces of device work, {busy}, {verdict}"


def check_device_rules(trace: Trace) -> DeviceRules:
    """Check every row of ``gpu`` that is work."""
    gpu = trace.table("gpu")
    rows = np.flatnonzero(gpu["kind"] <= GpuKind.SET)
    start = gpu["start_ns"][rows]
    end = start + gpu["duration_ns"][rows]
    device = gpu["device_index"][rows].astype(np.int64)
    stream = (device << 32) + (gpu["stream"][rows].astype(np.int64) & 0xFFFFFFFF)
    clock_error = trace.ledger.get("gpu", {}).get("clock error_ns", 0.0)
    tolerance = TOLERANCE_NS + int(np.ceil(clock_error))
    busy_ns, wall_ns = _busy_and_wall(device, start, end)
    ordered = ~_may_overlap(trace, rows)
    return DeviceRules(
        work=len(rows),
        before_launch=_before_launch(trace, rows, tolerance),
        overlapping=_overlapping(stream, start, end, ordered, tolerance),
        twice=_twice(trace, rows, stream),
        busy_ns=busy_ns,
        work_ns=int((end - start).sum()),
        ordered_ns=int((end - start)[ordered].sum()),
        wall_ns=wall_ns,
        streams=len(np.unique(stream)),
    )


def _before_launch(trace: Trace, rows: Values, tolerance: int) -> int:
    gpu = trace.table("gpu")
    launch = gpu["launch"][rows]
    known = (launch >= 0) & (launch < len(trace.events))
    begun = trace.events["start_ns"][launch[known]]
    return int(np.count_nonzero(gpu["start_ns"][rows][known] < begun - tolerance))


def _may_overlap(trace: Trace, rows: Values) -> npt.NDArray[np.bool_]:
    gpu, events = trace.table("gpu"), trace.events
    launch = gpu["launch"][rows]
    known = (launch >= 0) & (launch < len(events))
    result: npt.NDArray[np.bool_] = gpu["graph_node"][rows] != 0
    calls = [name for text in _MAY_OVERLAP if (name := trace.names.find(text)) >= 0]
    result[known] |= np.isin(events["name"][launch[known]], calls)
    return result


def _overlapping(
    stream: Values, start: Values, end: Values, ordered: npt.NDArray[np.bool_], tolerance: int
) -> int:
    """Pieces of work that must wait for all before them on their stream, and did not."""
    order = np.lexsort((end, start, stream))
    stream, start, end, ordered = stream[order], start[order], end[order], ordered[order]
    same = stream[1:] == stream[:-1]
    return int(np.count_nonzero(same & ordered[1:] & (start[1:] < end[:-1] - tolerance)))


def _twice(trace: Trace, rows: Values, stream: Values) -> int:
    gpu = trace.table("gpu")
    columns = [gpu[name][rows].astype(np.int64) for name in _IDENTITY]
    if not len(rows):
        return 0
    order = np.lexsort((*columns, stream))
    same = stream[order][1:] == stream[order][:-1]
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    return int(np.count_nonzero(same))


_IDENTITY = ("correlation_id", "graph_node", "start_ns", "duration_ns", "name", "kind")


def _busy_and_wall(device: Values, start: Values, end: Values) -> tuple[int, int]:
    """Length of the union of the spans of each device, and from its first to its last moment."""
    busy = wall = 0
    for one in np.unique(device):
        rows = np.flatnonzero(device == one)
        rows = rows[np.argsort(start[rows], kind="stable")]
        reached = np.maximum.accumulate(end[rows])
        before = np.concatenate([start[rows[:1]], reached[:-1]])
        busy += int(np.maximum(end[rows] - np.maximum(start[rows], before), 0).sum())
        wall += int(reached[-1] - start[rows[0]])
    return busy, wall
