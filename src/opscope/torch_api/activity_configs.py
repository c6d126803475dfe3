"""Configuration objects of activities, as torch has them from 2.15 on; here, with every torch.

An item of ``activities`` may have a ``ProfilerActivityConfig`` instead of a list of kinds of event.
torch's own objects and these are recognised by their fields, so both work wherever activities are
given.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_COUNTERS = "hardware counters of kernels"
_BEYOND = {
    "enable_environment_counters": "counters of a device's clocks, power and temperature",
    "enable_graph_dependencies": "dependencies between the nodes of CUDA graphs",
    "enable_event_node_ids": "ids of the nodes that record events in CUDA graphs",
}
"""Switches of ``CuspyConfig`` for data that opscope does not record, with that data."""


@dataclass(frozen=True)
class CuspyConfig:
    """torch's configuration of Cuspy, its other way to use CUPTI.

    opscope uses CUPTI itself and reads from it only what to record.

    Attributes:
        enable_cuda_sync_events: record synchronisations too.
        enable_environment_counters: not recorded here; a warning says so.
        enable_graph_dependencies: not recorded here; a warning says so.
        enable_event_node_ids: not recorded here; a warning says so.
    """

    enable_cuda_sync_events: bool = False
    enable_environment_counters: bool = False
    enable_graph_dependencies: bool = False
    enable_event_node_ids: bool = False


@dataclass
class PerformanceMetricsConfig:
    """torch's configuration of hardware counters, which opscope does not record; a warning says so.

    Attributes:
        metric_names: names of the counters.
        sampling_interval_ms: time between two samples.
        lookback_window_ms: how long samples are kept.
    """

    metric_names: list[str]
    sampling_interval_ms: float | None = None
    lookback_window_ms: float | None = None


@dataclass
class ProfilerActivityConfig:
    """Configuration of one activity.

    Attributes:
        activity_types: kinds of event to keep; None for the usual ones, empty for none.
        profiler_configs: further configurations, such as :class:`CuspyConfig`.
    """

    activity_types: list[str] | None = None
    profiler_configs: list[Any] = field(default_factory=list)


def is_activity_config(given: object) -> bool:
    """Whether this is a ``ProfilerActivityConfig``, torch's or opscope's."""
    return hasattr(given, "activity_types") and hasattr(given, "profiler_configs")


def wants_synchronisations(configs: Iterable[Any]) -> bool:
    """Whether a further configuration requests synchronisations of devices."""
    return any(getattr(config, "enable_cuda_sync_events", False) for config in configs)


def not_recorded(configs: Iterable[Any]) -> list[str]:
    """Descriptions of requested data that opscope does not record."""
    found: dict[str, None] = {}
    for config in configs:
        if getattr(config, "metric_names", None):
            found[_COUNTERS] = None
        for name, what in _BEYOND.items():
            if getattr(config, name, False):
                found[what] = None
    return list(found)


def warn_of_not_recorded(what: Iterable[str], stacklevel: int) -> None:
    """Warn of data requested in ``activities`` that will not be recorded."""
    named = ", ".join(what)
    if named:
        warnings.warn(
            f"activities: opscope records no {named}; everything else is recorded. For these, "
            "use torch's own profiler, without the drop-in.",
            stacklevel=stacklevel + 1,
        )


def activities_of_extensions(extensions: Mapping[str, str]) -> list[str]:
    """:func:`not_recorded` for the form in which torch passes these to C++."""
    return [_COUNTERS] if extensions.get("PERFORMANCE_METRICS") else []
