"""``_ProfilerEvent``: what every node of the event tree has, in torch's shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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
        """Of the operator; empty for anything else, and where it was not recorded."""
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
