"""_ProfilerEvent: what every node of the event tree has, and those of devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.codes import GpuKind
from opscope.columns.trace_data import TraceData
from opscope.torch_api.event_tree.extra_fields import ExtraFieldsKineto


class ProfilerEvent(ABC):
    """One node; the same object every time a tree hands it out, as torch's do."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As torch shows it."""

    @property
    @abstractmethod
    def id(self) -> int:
        """Unique in the tree."""

    @property
    @abstractmethod
    def correlation_id(self) -> int:
        """What else in the trace is of the same has the same; 0 for none."""

    @property
    @abstractmethod
    def start_time_ns(self) -> int:
        """Unix time."""

    @property
    @abstractmethod
    def duration_time_ns(self) -> int:
        """From start to end."""

    @property
    def end_time_ns(self) -> int:
        """Unix time."""
        return self.start_time_ns + self.duration_time_ns

    @property
    @abstractmethod
    def start_tid(self) -> int:
        """System id of its thread, or number of its stream."""

    @property
    def overload_name(self) -> str:
        """Of the operator; empty for anything else, and where their data was not recorded."""
        return ""

    @property
    @abstractmethod
    def parent(self) -> ProfilerEvent | None:
        """What it ran directly inside, or was launched by."""

    @property
    @abstractmethod
    def children(self) -> list[ProfilerEvent]:
        """What ran directly inside or was launched directly there, in order of start."""

    @property
    @abstractmethod
    def typed(self) -> tuple[Any, Any]:
        """The kind of event, and its extra fields."""

    @property
    def tag(self) -> Any:
        """``torch._C._profiler._EventType``."""
        return self.typed[0]

    @property
    def extra_fields(self) -> Any:
        """One of the ``_ExtraFields_*``."""
        return self.typed[1]

    def __repr__(self) -> str:
        return f"<_ProfilerEvent {self.name!r}>"


class _DeviceEvent(ProfilerEvent):
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
        return self._work.first_id + self._row

    @property
    def correlation_id(self) -> int:
        return int(self._gpu["correlation_id"][self._row])

    @property
    def start_time_ns(self) -> int:
        return int(self._gpu["start_ns"][self._row])

    @property
    def duration_time_ns(self) -> int:
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
        return []

    @property
    def typed(self) -> tuple[Any, Any]:
        from torch._C._profiler import _EventType

        return _EventType.Kineto, ExtraFieldsKineto()


class DeviceEvents:
    """The work of a trace by what launched it."""

    def __init__(
        self, trace: TraceData, first_id: int, event_of_row: Callable[[int], ProfilerEvent]
    ) -> None:
        self.gpu = trace.table("gpu")
        self.names = trace.names
        self.first_id = first_id
        self.event_of_row = event_of_row
        self._events: dict[int, ProfilerEvent] = {}

    @cached_property
    def _rows_by_launch(self) -> dict[int, list[int]]:
        work = np.flatnonzero(self.gpu["kind"] <= GpuKind.SET)
        rows: dict[int, list[int]] = {}
        for row, launch in zip(work.tolist(), self.gpu["launch"][work].tolist(), strict=True):
            rows.setdefault(launch, []).append(row)
        return rows

    def launched_by(self, row: int) -> list[ProfilerEvent]:
        """By a row of ``events``, in order of start; -1 for what no recorded call launched."""
        return [self._event(place) for place in self._rows_by_launch.get(row, ())]

    def _event(self, row: int) -> ProfilerEvent:
        return self._events.setdefault(row, _DeviceEvent(self, row))
