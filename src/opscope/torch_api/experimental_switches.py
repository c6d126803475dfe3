"""The switches of torch's ``_ExperimentalConfig``, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from opscope.errors import UsageError

SWITCHES: dict[str, Any] = {
    "profiler_metrics": ["a metric"],
    "profiler_measure_per_kernel": True,
    "verbose": True,
    "performance_events": ["an event"],
    "enable_cuda_sync_events": True,
    "adjust_profiler_step": True,
    "disable_external_correlation": True,
    "profile_all_threads": True,
    "capture_overload_names": True,
    "record_python_gc_info": True,
    "expose_kineto_event_metadata": True,
    "custom_profiler_config": "a backend",
    "adjust_timestamps": True,
    "trace_only": True,
}
"""Switches of torch's ``_ExperimentalConfig``, each with a value that is not its default."""


def experimental_switches(config: Any) -> dict[str, Any]:
    """The switches of torch's ``_ExperimentalConfig``, by name; only those that this torch has.

    torch exposes them only through pickling, in an order that versions change. So the order is
    found out by setting one after the other.

    Args:
        config: torch's object, or its switches by name: then also those that this torch does not
            have yet, or no more.

    Raises:
        UsageError: a name is no switch's.
    """
    if config is None:
        return {}
    if isinstance(config, Mapping):
        unknown = sorted(map(str, set(config) - set(SWITCHES)))
        if unknown:
            raise UsageError(
                f"experimental_config: there is no switch {', '.join(unknown)}; there are "
                f"{', '.join(SWITCHES)}."
            )
        return dict(config)
    state = config.__getstate__()
    places = _places_in_state(type(config))  # type: ignore[arg-type]
    return {name: state[place] for name, place in places.items()}


def with_switch(config: Any, name: str, value: Any) -> Any:
    """A copy of torch's ``_ExperimentalConfig`` with another value of one switch."""
    from torch._C._profiler import _ExperimentalConfig

    switches = {**experimental_switches(config), name: value}
    return _ExperimentalConfig(**switches)


@functools.cache
def _places_in_state(kind: Callable[..., Any]) -> dict[str, int]:
    default = kind().__getstate__()
    places = {}
    for name, value in SWITCHES.items():
        try:
            state = kind(**{name: value}).__getstate__()
        except TypeError:
            continue
        differing = [i for i, item in enumerate(state) if item != default[i]]
        if len(differing) == 1:
            places[name] = differing[0]
    return places
