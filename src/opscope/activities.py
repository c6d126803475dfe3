"""Activities: torch's names for what can be recorded, and what they mean to the recorder."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from opscope.errors import UsageError
from opscope.options import RecordingOptions
from opscope.trace.device_kinds import DEVICE_KINDS, OTHER_DEVICE_KINDS, device_kinds

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

    from opscope.profiler import profile

CPU_KINDS = {
    "CPU_OP": "operators",
    "USER_ANNOTATION": "annotations",
    "PYTHON_FUNCTION": "stack",
    "CPU_INSTANT_EVENT": "memory",
}
"""Kinds of CPU event an activity filter may name, and the option each is."""


def supported_activities() -> set[ProfilerActivity]:
    """What this machine can record: the CPU, and CUDA where torch sees a device."""
    import torch
    from torch.profiler import ProfilerActivity

    supported = {ProfilerActivity.CPU}
    if torch.cuda.is_available():
        supported.add(ProfilerActivity.CUDA)
    return supported


def records_cuda(activities: Iterable[ProfilerActivity]) -> bool:
    """Whether CUDA is asked for and there: a device, or a library that stands in for it."""
    import torch

    asked = any(activity.name == "CUDA" for activity in activities)
    return asked and (torch.cuda.is_available() or bool(os.environ.get("OPSCOPE_CUPTI")))


def parse_activities(
    activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None,
    use_cuda: bool | None,
) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """Activities and the filters given with some of them.

    Raises:
        UsageError: none left, one given twice, or not an activity at all.
    """
    from torch.profiler import ProfilerActivity

    parsed: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    for item in supported_activities() if activities is None else activities:
        for activity, kinds in item.items() if isinstance(item, dict) else ((item, None),):
            if not isinstance(activity, ProfilerActivity):
                raise UsageError(
                    f"activities: expected ProfilerActivity members or dicts of them, got "
                    f"{activity!r}. Use for example [ProfilerActivity.CPU]."
                )
            if activity in parsed:
                raise UsageError(f"activities: {activity.name} is given more than once.")
            parsed.add(activity)
            if kinds is not None:
                filters[activity] = set(kinds)
    _apply_use_cuda(parsed, use_cuda)
    left = set(parsed)
    if ProfilerActivity.CUDA in parsed and not records_cuda(parsed):
        warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=3)
        left.discard(ProfilerActivity.CUDA)
    if not left:
        raise UsageError("activities: nothing left to record. Name at least ProfilerActivity.CPU.")
    return parsed, filters


def _apply_use_cuda(parsed: set[ProfilerActivity], use_cuda: bool | None) -> None:
    if use_cuda is None:
        return
    from torch.profiler import ProfilerActivity

    warnings.warn(
        "`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=4
    )
    if use_cuda:
        parsed.add(ProfilerActivity.CUDA)
    else:
        parsed.discard(ProfilerActivity.CUDA)


def recording_options(settings: profile, all_threads: bool) -> RecordingOptions:
    """The recorder's options for a profile's settings.

    Raises:
        UsageError: an activity filter names an unknown kind of event.
    """
    from torch.profiler import ProfilerActivity

    on_cpu = ProfilerActivity.CPU in settings.activities
    experimental = experimental_switches(settings.experimental_config)
    chosen = {
        "operators": on_cpu,
        "annotations": on_cpu,
        "memory": settings.profile_memory,
        "stack": settings.with_stack,
    }
    kinds = settings.activity_filters.get(ProfilerActivity.CPU)
    if kinds is not None:
        unknown = {kind.upper() for kind in kinds} - set(CPU_KINDS)
        if unknown:
            raise UsageError(
                f"activities: unknown kinds of CPU event {sorted(unknown)}; known are "
                f"{', '.join(CPU_KINDS)}."
            )
        wanted = {CPU_KINDS[kind.upper()] for kind in kinds}
        chosen = {option: on and option in wanted for option, on in chosen.items()}
    of_devices = device_kinds(settings.activity_filters)
    known = {*DEVICE_KINDS, *OTHER_DEVICE_KINDS}
    if of_devices is not None and of_devices - known:
        raise UsageError(
            f"activities: unknown kinds of CUDA event {sorted(of_devices - known)}; known are "
            f"{', '.join(sorted(known))}."
        )
    return RecordingOptions(
        **chosen,
        shapes=settings.record_shapes or settings.with_flops,
        outputs=settings.record_outputs,
        modules=settings.with_modules,
        overloads=settings.record_outputs or bool(experimental.get("capture_overload_names")),
        all_threads=all_threads,
        gpu=records_cuda(settings.activities) and of_devices != frozenset(),
        gpu_sync=bool(experimental.get("enable_cuda_sync_events")),
        cuda_events=settings.cuda_events,
    )


_EXPERIMENTAL: dict[str, Any] = {
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
    """
    if config is None:
        return {}
    state = config.__getstate__()
    places = _places_in_state(type(config))  # type: ignore[arg-type]
    return {name: state[place] for name, place in places.items()}


@functools.cache
def _places_in_state(kind: Callable[..., Any]) -> dict[str, int]:
    default = kind().__getstate__()
    places = {}
    for name, value in _EXPERIMENTAL.items():
        try:
            state = kind(**{name: value}).__getstate__()
        except TypeError:
            continue
        differing = [i for i, item in enumerate(state) if item != default[i]]
        if len(differing) == 1:
            places[name] = differing[0]
    return places
