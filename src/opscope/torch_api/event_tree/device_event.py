"""What devices did, as nodes of the event tree: each inside the call that launched it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.codes import GpuKind
from opscope.columns.trace_data import TraceData
from opscope.torch_api.event_tree.extra_fields import ExtraFieldsKineto
from opscope.torch_api.event_tree.profiler_event import ProfilerEvent


class DeviceEvent(ProfilerEvent):
    """A kernel, copy or set; torch's are events that Kineto added."""

    def __init__(self, work: DeviceEvents, row: int) -> None:
        self._work = work
        self._gpu = work.gpu
        self._row = row

    @property
    def name(self) -> str:
        """Of the kernel; ``Memcpy HtoD (Pageable -> Device)`` and the like."""
        return self._work.names[self._gpu["name"][self._row]]

    @property
    def id(self) -> int:
        """Unique in the tree: those of devices come after all others."""
        return self._work.first_id + self._row

    @property
    def correlation_id(self) -> int:
        """That of the call that launched it."""
        return int(self._gpu["correlation_id"][self._row])

    @property
    def start_time_ns(self) -> int:
        """Unix time."""
        return int(self._gpu["start_ns"][self._row])

    @property
    def duration_time_ns(self) -> int:
        """From start to end."""
        return int(self._gpu["duration_ns"][self._row])

    @property
    def start_tid(self) -> int:
        """Number of its stream, as Kineto has it."""
        return int(self._gpu["stream"][self._row])

    @property
    def parent(self) -> ProfilerEvent | None:
        """The call that launched it; None if that was not recorded."""
        launch = int(self._gpu["launch"][self._row])
        return self._work.event_of_row(launch) if launch >= 0 else None

    @property
    def children(self) -> list[ProfilerEvent]:
        """None."""
        return []

    @property
    def typed(self) -> tuple[Any, Any]:
        """The kind of event, and its extra fields: nothing more is told."""
        from torch._C._profiler import _EventType

        return _EventType.Kineto, ExtraFieldsKineto()


class DeviceEvents:
    """The work of a trace by what launched it.

    Attributes:
        gpu: the table.
        names: of the trace.
        first_id: that of its first row.
        event_of_row: the event of a row of ``events``.
    """

    def __init__(
        self, trace: TraceData, first_id: int, event_of_row: Callable[[int], ProfilerEvent]
    ) -> None:
        self.gpu = trace.table("gpu")
        self.names = trace.names
        self.first_id = first_id
        self.event_of_row = event_of_row
        self._events: dict[int, DeviceEvent] = {}

    @cached_property
    def _rows_by_launch(self) -> dict[int, list[int]]:
        work = np.flatnonzero(self.gpu["kind"] <= GpuKind.SET)
        rows: dict[int, list[int]] = {}
        for row, launch in zip(work.tolist(), self.gpu["launch"][work].tolist(), strict=True):
            rows.setdefault(launch, []).append(row)
        return rows

    def launched_by(self, row: int) -> list[DeviceEvent]:
        """By a row of ``events``, in order of start; -1 for what no recorded call launched."""
        return [self._event(place) for place in self._rows_by_launch.get(row, ())]

    def _event(self, row: int) -> DeviceEvent:
        return self._events.setdefault(row, DeviceEvent(self, row))
