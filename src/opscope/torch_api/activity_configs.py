"""Configuration objects of activities, as in torch from 2.15 on; here for every torch.

An item of ``activities`` may have a ``ProfilerActivityConfig`` instead of a list of event kinds.
opscope identifies torch's objects and its own by their fields, so both work everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_COUNTERS = "hardware counters of kernels"
_NOT_RECORDED = {
    "enable_environment_counters": "counters of a device's clocks, power and temperature",
    "enable_graph_dependencies": "dependencies between the nodes of CUDA graphs",
    "enable_event_node_ids": "ids of the nodes that record events in CUDA graphs",
}
"""Switches of ``CuspyConfig`` for data that opscope does not record, with that data."""


@dataclass(frozen=True)
class CuspyConfig:
    """torch's configuration of Cuspy, torch's other CUPTI client.

    opscope uses CUPTI itself and reads only this configuration's switches. The last three are not
    supported; opscope warns of them.

    Attributes:
        enable_cuda_sync_events: record synchronisations too.
    """

    enable_cuda_sync_events: bool = False
    enable_environment_counters: bool = False
    enable_graph_dependencies: bool = False
    enable_event_node_ids: bool = False


@dataclass
class PerformanceMetricsConfig:
    """torch's configuration of hardware counters, which opscope does not record; it warns.

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
        activity_types: kinds of event to keep; None for the default kinds, empty for none.
        profiler_configs: further configurations, such as :class:`CuspyConfig`.
    """

    activity_types: list[str] | None = None
    profiler_configs: list[Any] = field(default_factory=list)


def is_activity_config(item: object) -> bool:
    """Whether ``item`` is a ``ProfilerActivityConfig``, torch's or opscope's."""
    return hasattr(item, "activity_types") and hasattr(item, "profiler_configs")


def wants_synchronisations(configs: Iterable[Any]) -> bool:
    """Whether a further configuration requests synchronisations of devices."""
    return any(getattr(config, "enable_cuda_sync_events", False) for config in configs)


def not_recorded(configs: Iterable[Any]) -> list[str]:
    """Descriptions of requested data that opscope does not record."""
    descriptions: dict[str, None] = {}
    for config in configs:
        if getattr(config, "metric_names", None):
            descriptions[_COUNTERS] = None
        for name, description in _NOT_RECORDED.items():
            if getattr(config, name, False):
                descriptions[description] = None
    return list(descriptions)


def warn_of_not_recorded(descriptions: Iterable[str], stacklevel: int) -> None:
    """Warn of requested data that will not be recorded."""
    joined = ", ".join(descriptions)
    if joined:
        warnings.warn(
            f"activities: opscope records no {joined}; everything else is recorded. For these, "
            "use torch's own profiler, without the drop-in.",
            stacklevel=stacklevel + 1,
        )


def activities_of_extensions(extensions: Mapping[str, str]) -> list[str]:
    """:func:`not_recorded` for the form in which torch passes configurations to C++."""
    return [_COUNTERS] if extensions.get("PERFORMANCE_METRICS") else []
