"""Device utilisation of a trace, as one result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from opscope.analysis.account.device_rows import causes_of_device_work, work_by_device
from opscope.analysis.account.pieces import Pieces, pieces_of
from opscope.analysis.device_use.idle import Idle, idle_by_cause, idle_of_pieces, next_work
from opscope.analysis.device_use.owners import (
    ModuleDeviceTime,
    StreamUse,
    modules_of,
    owners_of,
    streams_of,
    times_between,
)
from opscope.analysis.kernel_occupancy import KernelOccupancy, kernel_occupancy
from opscope.analysis.memory.counters import ReservedMemory, memory_of
from opscope.base.quantity_text import share_text
from opscope.base.reused_memory import reusing_memory
from opscope.base.shown_result import ShownResult
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind, GpuKind
from opscope.columns.labels import device_title
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.doubts import require_times
from opscope.timeline.listing import WORK_KINDS
from opscope.timeline.period import Period, Which, period_of, wall_bounds
from opscope.timeline.steps import program_steps
from opscope.timeline.stretches import Stretches, union_of

_WORTH_SAYING = 0.1  # minimum share of the period for advice


_OF_SEVERAL = (
    "Each process has its own devices: choose a process with --rank or --process (in a "
    "program, job[rank])."
)


@dataclass(frozen=True)
class DeviceUse:
    """One device in the period. Times are wall nanoseconds.

    Attributes:
        device: ``cuda:0``.
        work: kernels, copies and sets.
        busy_ns: time in which at least one stream worked; the rest of ``wall_ns`` is idle.
        computing_ns: time in which kernels other than collectives ran.
        communicating_ns: time in which kernels of collectives ran.
        copying_ns: time in which memory was copied or set.
        hidden_communicating_ns: part of ``communicating_ns`` that overlaps with computing.
        hidden_copying_ns: part of ``copying_ns`` that overlaps with computing.
        idle_ns: idle time by cause; the causes add up to the idle time.
        gaps: number of idle periods.
        longest_gap_ns: duration of the longest.
        streams: busiest first.
        without_launch: activities whose launch is unknown.
        without_owner: activities with a known launch outside operators, modules and other spans.
        without_owner_ns: sum of their durations.
        work_ns: sum of all durations.
        occupancy: share of a multiprocessor that kernels can fill, weighted by time, 0 to 1: an
            estimate from their sizes; -1 if the device's properties are unknown.
    """

    device: str
    work: int
    busy_ns: int
    computing_ns: int
    communicating_ns: int
    copying_ns: int
    hidden_communicating_ns: int
    hidden_copying_ns: int
    idle_ns: dict[Idle, int]
    gaps: int
    longest_gap_ns: int
    streams: tuple[StreamUse, ...]
    without_launch: int
    without_owner: int
    without_owner_ns: int
    work_ns: int
    occupancy: float


@dataclass(frozen=True)
class DevicesUse(ShownResult):
    """All devices of a trace.

    Attributes:
        about: the period, in words.
        wall_ns: its duration; shares are of it.
        devices: the devices, in order; empty without device work.
        modules: device time of each module, outer before inner.
        memory: memory that torch's allocator reserved on each device, and the used part.
        notes: missing data, with the reason.
    """

    about: str
    wall_ns: int
    devices: tuple[DeviceUse, ...]
    modules: tuple[ModuleDeviceTime, ...]
    memory: tuple[ReservedMemory, ...]
    notes: tuple[str, ...]

    def share(self, time_ns: int) -> float:
        """Share of the period, 0 to 1."""
        return time_ns / max(self.wall_ns, 1)

    @property
    def modules_by_time(self) -> tuple[ModuleDeviceTime, ...]:
        """``modules`` by time, largest first; outer modules before inner ones of equal time."""
        return tuple(sorted(self.modules, key=lambda one: -(one.forward_ns + one.backward_ns)))

    def mostly_idle(self) -> dict[str, Idle]:
        """Main cause of idle time by device, for devices that are idle for a relevant share."""
        causes = {}
        for device in self.devices:
            cause = max(device.idle_ns, key=lambda one: device.idle_ns[one], default=Idle.UNKNOWN)
            if self.share(device.idle_ns.get(cause, 0)) >= _WORTH_SAYING:
                causes[device.device] = cause
        return causes

    def advice(self) -> dict[str, str]:
        """Explanation of the cause in :meth:`mostly_idle`, by device."""
        times = {device.device: device.idle_ns for device in self.devices}
        texts = {}
        for name, cause in self.mostly_idle().items():
            share = share_text(self.share(times[name][cause]))
            about = f"{device_title(name)} is idle {share} of the time"
            texts[name] = f"{about}, {cause.title}: {cause.meaning}"
        return texts

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON: the attributes, with causes in words, and None for unknown values."""
        values = asdict(self)
        for device in values["devices"]:
            _hide_unknown(device, ("occupancy",))
            for stream in device["streams"]:
                _hide_unknown(stream, ("delay_median_ns", "delay_90_ns", "delay_max_ns"))
            causes = device["idle_ns"].items()
            device["idle_ns"] = {Idle(cause).title: time for cause, time in causes}
        for memory in values["memory"]:
            _hide_unknown(memory, ("peak_reserved_bytes",))
        return values


def _hide_unknown(values: dict[str, Any], names: tuple[str, ...]) -> None:
    values.update({name: None for name in names if values[name] < 0})


@reusing_memory
def find_device_use(trace: TraceData, which: Which | str = Which.STEADY) -> DevicesUse:
    """Utilisation of devices, causes of idle time, and owners of the work.

    Without device work, and for several processes together, the notes say so.
    """
    period = period_of(trace, which)
    require_times(trace)
    gpu, memory = trace.table("gpu"), memory_of(period.trace)
    start = gpu["start_ns"]
    there = (start < period.end_ns) & (start + gpu["duration_ns"] >= period.start_ns)
    rows = np.flatnonzero(there & np.isin(gpu["kind"], WORK_KINDS))
    rows = rows[np.argsort(start[rows], kind="stable")]
    if len(rows) and _is_of_several(trace):
        return DevicesUse(str(period), period.wall_ns, (), (), (), (_OF_SEVERAL,))
    if not len(rows):
        missing = (_why_no_work(trace),)
        return DevicesUse(str(period), period.wall_ns, (), (), memory, missing)
    # For the whole recording, because work may have been launched before the part.
    steps, _ = program_steps(trace)
    pieces = pieces_of(trace, steps, wall_bounds(trace))
    occupancy = kernel_occupancy(trace)
    idle = idle_of_pieces(trace, pieces)
    devices = tuple(
        _device(trace, period, pieces, idle, own, name, occupancy)
        for name, own in work_by_device(trace, rows)
    )
    modules = modules_of(trace, rows, (period.start_ns, period.end_ns))
    notes = tuple(_notes(trace, devices, modules, memory, occupancy))
    return DevicesUse(str(period), period.wall_ns, devices, modules, memory, notes)


def _is_of_several(trace: TraceData) -> bool:
    """Whether the trace combines processes, whose devices have the same names."""
    return len(np.unique(trace.table("threads")["process_id"])) > 1


def _device(
    trace: TraceData,
    period: Period,
    pieces: Pieces,
    idle: Values,
    rows: Values,
    name: str,
    occupancy: KernelOccupancy | None,
) -> DeviceUse:
    bounds = (period.start_ns, period.end_ns)
    begin, end = times_between(trace, rows, bounds)
    took = end - begin
    cause_of_work = causes_of_device_work(trace, rows)
    computing, communicating, copying, busy = (
        union_of(begin[chosen], end[chosen])
        for chosen in (
            cause_of_work == Cause.OPERATOR,
            cause_of_work == Cause.COLLECTIVE,
            cause_of_work == Cause.COPY,
            np.ones(len(rows), dtype=np.bool_),
        )
    )
    gaps = busy.gaps(*bounds)
    ended_by = next_work(trace, rows, gaps)
    by_cause = idle_by_cause(pieces, idle, gaps, ended_by).sum(axis=0)
    has_launch, has_owner = owners_of(trace, rows)
    no_owner = has_launch & ~has_owner
    return DeviceUse(
        device=name,
        work=len(rows),
        busy_ns=busy.total_ns,
        computing_ns=computing.total_ns,
        communicating_ns=communicating.total_ns,
        copying_ns=copying.total_ns,
        hidden_communicating_ns=communicating.overlap_ns(computing),
        hidden_copying_ns=copying.overlap_ns(computing),
        idle_ns={cause: int(by_cause[cause]) for cause in Idle if by_cause[cause]},
        gaps=len(gaps),
        longest_gap_ns=_longest(gaps),
        streams=streams_of(trace, rows, bounds),
        without_launch=int(np.count_nonzero(~has_launch)),
        without_owner=int(np.count_nonzero(no_owner)),
        without_owner_ns=int(took[no_owner].sum()),
        work_ns=int(took.sum()),
        occupancy=_occupancy(trace, rows, occupancy),
    )


def _longest(gaps: Stretches) -> int:
    return int((gaps.end_ns - gaps.start_ns).max(initial=0))


def _occupancy(trace: TraceData, rows: Values, occupancy: KernelOccupancy | None) -> float:
    """Average of kernels with known sizes, weighted by time; -1 without any."""
    if occupancy is None:
        return -1.0
    gpu = trace.table("gpu")
    kernels = rows[(gpu["kind"][rows] == GpuKind.KERNEL) & (occupancy.warps_per_sm[rows] > 0)]
    if not len(kernels):
        return -1.0
    weight = np.maximum(gpu["duration_ns"][kernels], 1)
    return float(np.average(occupancy.occupancy[kernels], weights=weight))


def _why_no_work(trace: TraceData) -> str:
    about = trace.metadata.get("gpu", {})
    if isinstance(about, dict) and about.get("unavailable"):
        return f"no device work was recorded: {about['unavailable']}"
    if len(trace.table("gpu")):
        return "no device work in this period; --period all includes the whole recording"
    return (
        "no device work was recorded: the program used no GPU, or CUDA was not among the "
        "requested activities"
    )


def _notes(
    trace: TraceData,
    devices: tuple[DeviceUse, ...],
    modules: tuple[ModuleDeviceTime, ...],
    memory: tuple[ReservedMemory, ...],
    occupancy: KernelOccupancy | None,
) -> Iterator[str]:
    missing = sum(device.without_launch for device in devices)
    if missing:
        yield (
            f"the launch of {missing:,} activities was not recorded, or is outside this period; "
            "their operators and modules are unknown"
        )
    early = sum(stream.begun_early for device in devices for stream in device.streams)
    if early:
        yield (
            f"work of {early:,} launches began before them by the clocks, which differ by that "
            "much; they count as launches without delay"
        )
    kinds = trace.events["kind"]
    if not (kinds == EventKind.RUNTIME_CALL).any():
        yield "no runtime calls were recorded, so launch times are unknown"
    if not modules:
        had = (kinds == EventKind.MODULE_CALL).any()
        yield (
            "no module call launched device work"
            if had
            else "device time per module needs module calls: record with with_modules=True"
        )
    if occupancy is None or all(device.occupancy < 0 for device in devices):
        yield "occupancy is unknown: the recording has no kernel sizes or no device properties"
    if not memory:
        yield "device memory was not recorded: use profile_memory=True"
