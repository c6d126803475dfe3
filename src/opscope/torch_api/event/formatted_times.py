"""Times of an event or average as text, and per call."""

from __future__ import annotations

import warnings
from typing import Any

from opscope.torch_api.event.number_text import format_time


class FormattedTimesMixin:
    """For classes with ``*_time_total`` in microseconds and ``count``."""

    count: int

    @property
    def cpu_time(self) -> float:
        """CPU microseconds per call."""
        return self._per_call("cpu_time_total")

    @property
    def device_time(self) -> float:
        """Device microseconds per call."""
        return self._per_call("device_time_total")

    @property
    def cuda_time(self) -> float:
        """Deprecated: use ``device_time``."""
        warnings.warn("Use device_time instead", FutureWarning, stacklevel=2)
        return self.device_time

    @property
    def cpu_time_str(self) -> str:
        """``cpu_time`` as text."""
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """``device_time`` as text."""
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """``cpu_time_total`` as text."""
        return format_time(self._total("cpu_time_total"))

    @property
    def device_time_total_str(self) -> str:
        """``device_time_total`` as text."""
        return format_time(self._total("device_time_total"))

    @property
    def self_cpu_time_total_str(self) -> str:
        """``self_cpu_time_total`` as text."""
        return format_time(self._total("self_cpu_time_total"))

    @property
    def self_device_time_total_str(self) -> str:
        """``self_device_time_total`` as text."""
        return format_time(self._total("self_device_time_total"))

    def _per_call(self, name: str) -> float:
        return self._total(name) / self.count if self.count else 0.0

    def _total(self, name: str) -> float:
        value: Any = getattr(self, name)
        return float(value)
