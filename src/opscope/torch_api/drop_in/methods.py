"""Replacements for methods of torch that make objects, need a GPU, or collect activity.

torch can have Python collect CUPTI's reports (Cuspy in 2.15, the CUPTI monitor in 2.13 and 2.14)
instead of Kineto. Under the drop-in only opscope uses CUPTI: two would take each other's records.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns
from typing import Any

from opscope.torch_api.activity_configs import (
    not_recorded,
    wants_synchronisations,
    warn_of_not_recorded,
)
from opscope.torch_api.drop_in.backend.result import ProfilerResult
from opscope.torch_api.event_list.event_list import EventList
from opscope.torch_api.settings import with_switch

_logger = logging.getLogger("torch.autograd.profiler")  # torch's logger for this


def ensure_function_events(self: Any) -> None:
    """``profile._ensure_function_events``: the events as a lazy list."""
    if getattr(self.experimental_config, "trace_only", False):
        raise RuntimeError(
            "events() is not available when trace_only=True in ExperimentalConfig. Use "
            "export_chrome_trace() instead."
        )
    if self._function_events is not None:
        return
    self._needs_processing = False
    self._old_function_events = None
    started_ns = perf_counter_ns()
    result = _accumulated(self) if self.acc_events else self.kineto_results
    trace_ready_ns = perf_counter_ns()
    timeout_s = getattr(self, "post_processing_timeout_s", None)
    if result is None:
        events = EventList()
    elif timeout_s is None:
        events = result.function_events
    else:
        events = EventList(self._parse_kineto_results(result, timeout_s=timeout_s))
    self._function_events = events
    self._stats.parse_kineto_call_duration_us = _microseconds(started_ns, trace_ready_ns)
    self._stats.function_events_build_tree_call_duration_us = _microseconds(
        trace_ready_ns, perf_counter_ns()
    )
    self._stats.number_of_events = len(events)


def _accumulated(self: Any) -> ProfilerResult | None:
    from opscope.columns.concat import concat_traces

    result = self.kineto_results
    if result is None:
        return None
    previous = getattr(self, "_opscope_accumulated", None)
    trace = result.trace if previous is None else concat_traces([previous, result.trace])
    self._opscope_accumulated = trace
    return ProfilerResult(lambda: trace, result.options)


def _microseconds(start_ns: int, end_ns: int) -> int:
    """Microseconds, rounded up so that a stage that ran is not 0."""
    return -((start_ns - end_ns) // 1000)


def parse_kineto_results(self: Any, result: Any, timeout_s: float | None = None) -> list[Any]:
    """``profile._parse_kineto_results``: events of a result, as many as the time permits."""
    events = result.function_events
    if timeout_s is None:
        return list(events)
    if timeout_s < 0:
        raise ValueError("timeout_s must be non-negative")
    deadline = perf_counter() + timeout_s
    events_so_far: list[Any] = []
    for event in events:
        if perf_counter() >= deadline:
            _logger.warning(
                "Post-processing timed out after %s s: partial results, %d of %d events. Raise "
                "post_processing_timeout_s, or leave it out: events are made when looked at.",
                timeout_s,
                len(events_so_far),
                len(events),
            )
            break
        events_so_far.append(event)
    return events_so_far


def export_chrome_trace(
    self: Any,
    path: str,
    metadata: dict[str, str] | None = None,
    use_python_export: bool = False,
    cuda_graph_annotations: Mapping[int, Any] | None = None,
    graph_lanes: str = "none",
    default_stream: int = 7,
) -> None:
    """``torch.autograd.profiler.profile.export_chrome_trace``; can be called repeatedly."""
    _warn_of_lanes(cuda_graph_annotations, graph_lanes)
    self.kineto_results.save(path, _parsed(metadata))


def export_last_cycle(
    self: Any,
    path: str,
    use_python_export: bool = False,
    cuda_graph_annotations: Mapping[int, Any] | None = None,
    graph_lanes: str = "none",
    default_stream: int = 7,
) -> None:
    """``torch.profiler.profile.export_chrome_trace``; the writer itself handles ``.gz``."""
    _warn_of_lanes(cuda_graph_annotations, graph_lanes)
    if self.profiler is None:
        raise AssertionError("Profiler must be initialized before exporting chrome trace")
    added = getattr(self, "_trace_metadata", None)
    self.profiler.kineto_results.save(path, _parsed(added))


def export_result(
    result: Any,
    path: str,
    metadata: dict[str, str] | None = None,
    annotations: Mapping[int, Any] | None = None,
    graph_lanes: str = "none",
    default_stream: int = 7,
) -> None:
    """``torch.profiler._chrome_trace_export.export_chrome_trace``."""
    _warn_of_lanes(annotations, graph_lanes)
    result.save(path, _parsed(metadata))


def _warn_of_lanes(annotations: Mapping[int, Any] | None, graph_lanes: str) -> None:
    """Check arguments as torch does, and warn that work of CUDA graphs stays on its streams."""
    if graph_lanes not in ("none", "all"):
        raise ValueError(f"graph_lanes must be 'all' or 'none', got {graph_lanes!r}")
    if graph_lanes == "all" and not annotations:
        raise ValueError("graph_lanes='all' needs cuda_graph_annotations")
    if annotations:
        warnings.warn(
            "export_chrome_trace(cuda_graph_annotations=...): opscope shows work of CUDA graphs "
            "on the streams that it ran on, without these annotations. For them, run the program "
            "on torch's own profiler, without the drop-in.",
            stacklevel=3,
        )


def _parsed(metadata: dict[str, str] | None) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in (metadata or {}).items()}


_OTHER_COLLECTORS = ("_use_cuspy", "_use_cupti_monitor")
"""Attributes of ``torch.profiler.profile`` that select another collector."""


def prepare_trace_of_ours(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """``_KinetoProfile.prepare_trace`` that starts no other collector of device activity."""

    @functools.wraps(original)
    def prepare_trace(self: Any) -> None:
        with _without_others(self):
            original(self)
        _import_inductor()

    return prepare_trace


def _import_inductor() -> None:
    """Import torch's setting of CUDA graphs before the recording.

    Older torch versions import it during the recording, where it would dominate a short one.
    """
    if importlib.util.find_spec("torch._inductor") is not None:
        importlib.import_module("torch._inductor.config")


@contextmanager
def _without_others(profile: Any) -> Iterator[None]:
    activity_configs = getattr(profile, "activity_configs", {})
    configs = [item for config in activity_configs.values() for item in config.profiler_configs]
    collector = next((name for name in _OTHER_COLLECTORS if getattr(profile, name, False)), None)
    if collector is not None:
        setattr(profile, collector, False)
        if getattr(profile, "_cuspy_config", None) is not None:
            configs.append(profile._cuspy_config)  # may come from a backend's configuration
            profile._cuspy_config = None
    if wants_synchronisations(configs):
        profile.experimental_config = with_switch(
            profile.experimental_config, "enable_cuda_sync_events", True
        )
    warn_of_not_recorded(not_recorded(configs), stacklevel=5)
    if not activity_configs:
        yield
        return
    # torch requires a device for counters, which opscope does not record.
    profile.activity_configs = {
        activity: type(config)(activity_types=config.activity_types)
        for activity, config in activity_configs.items()
    }
    try:
        yield
    finally:
        profile.activity_configs = activity_configs
