"""Begin, end and process of a trace, from its metadata and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opscope.columns.trace_data import TraceData

_PERIOD_NS = 7_889_238 * 10**9
"""A quarter of a year: times relative to a multiple of it are exact as JSON numbers."""


@dataclass(frozen=True)
class Window:
    """Begin and end of a trace, Unix nanoseconds.

    Attributes:
        start_ns: no row is earlier.
        end_ns: no row ends later.
    """

    start_ns: int
    end_ns: int

    @property
    def base_ns(self) -> int:
        """Time 0 of an exported file: ``start_ns`` rounded down to a multiple of a quarter year."""
        return self.start_ns // _PERIOD_NS * _PERIOD_NS

    def microseconds(self, time_ns: int) -> str:
        """Time relative to ``base_ns`` in microseconds: exact, with three decimals."""
        whole, rest = divmod(time_ns - self.base_ns, 1000)
        return f"{whole}.{rest:03d}"


def window_of(trace: TraceData, metadata: Mapping[str, Any]) -> Window:
    """Window from the recording's own bounds and those of everything in it."""
    events, gpu = trace.events, trace.table("gpu")
    allocated = trace.table("allocations")["time_ns"]
    starts = [int(c.min()) for c in (events["start_ns"], allocated, gpu["start_ns"]) if len(c)]
    gpu_end = gpu["start_ns"] + gpu["duration_ns"]
    ends = [int(c.max()) for c in (trace.end_ns, allocated, gpu_end) if len(c)]
    start = min([*_integers(metadata.get("start_ns")), *starts], default=0)
    return Window(start, max([*_integers(metadata.get("end_ns")), *ends], default=start))


def process_id_of(trace: TraceData, metadata: Mapping[str, Any]) -> int:
    """Id of the host process, by default the lowest thread id, which Linux numbers alike."""
    threads = trace.table("threads")["system_thread_id"]
    lowest = int(threads.min()) if len(threads) else 0
    return next(_integers(metadata.get("process_id")), lowest)


def process_name_of(metadata: Mapping[str, Any], process: int | None = None) -> str:
    """Name of the process, or of one of several."""
    names = metadata.get("process_names")
    if process is not None and isinstance(names, dict) and str(process) in names:
        return str(names[str(process)])
    return str(metadata.get("process_name") or "python")


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
