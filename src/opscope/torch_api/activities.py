"""Activities: torch's names for data to record, and their recorder options."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.columns.device_kinds import DEVICE_KINDS, OTHER_DEVICE_KINDS, device_kinds
from opscope.errors import UsageError, not_installed
from opscope.recording.sources import switches
from opscope.torch_api.activity_configs import (
    is_activity_config,
    not_recorded,
    warn_of_not_recorded,
)

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

CPU_KINDS = {switch.filter_kind: switch.option for switch in switches() if switch.filter_kind}
"""Kinds of CPU event in an activity filter, and their options."""


@dataclass(frozen=True, kw_only=True)
class ChosenActivities:
    """Activities and kinds of event to record."""

    cpu: bool = True  # activity of the CPU
    cuda: bool = False  # activity of CUDA devices
    cpu_kinds: frozenset[str] | None = None  # keys of :data:`CPU_KINDS` to record; None for all
    device_kinds: frozenset[str] | None = None  # of ``columns.device_kinds``; None for all


def supported_activities() -> set[ProfilerActivity]:
    """Activities that this machine can record: the CPU, and CUDA if torch sees a device.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    _require_torch()
    import torch
    from torch.profiler import ProfilerActivity

    supported = {ProfilerActivity.CPU}
    if torch.cuda.is_available():
        supported.add(ProfilerActivity.CUDA)
    return supported


def records_cuda(activities: Iterable[ProfilerActivity]) -> bool:
    """Whether CUDA is requested and available: a device, or a replacement library."""
    return any(activity.name == "CUDA" for activity in activities) and has_devices()


def has_devices() -> bool:
    """Whether torch sees a device, or ``OPSCOPE_CUPTI`` names a replacement library."""
    import torch

    return bool(torch.cuda.is_available() or os.environ.get("OPSCOPE_CUPTI"))


@dataclass(frozen=True)
class ParsedActivities:
    """Content of the argument ``activities``."""

    activities: set[ProfilerActivity]  # activities to record
    filters: dict[ProfilerActivity, set[str]]  # kinds of event of activities with a filter
    configs: list[Any]  # further configuration objects; see ``activity_configs``


def _require_torch() -> None:
    try:
        # Unlike the statement, this takes no lock if torch is imported. On Python 3.10 a signal
        # handler that interrupts importlib's locking would deadlock.
        __import__("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise not_installed("torch", "Recording a program") from error


def parse_activities(
    activities: Iterable[ProfilerActivity | dict[ProfilerActivity, Any]] | None,
    use_cuda: bool | None,
) -> ParsedActivities:
    """Activities, their filters, and further configurations.

    Raises:
        UsageError: no activity is left, one is given twice, or an item is not an activity.
        MissingDependencyError: torch is not installed.
    """
    _require_torch()
    from torch.profiler import ProfilerActivity

    if isinstance(activities, str | bytes) or not isinstance(activities, Iterable | None):
        raise UsageError(
            f"activities={activities!r} is not a list. Pass one of ProfilerActivity's members, for "
            "example activities=[ProfilerActivity.CPU]."
        )
    parsed: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    configs: list[Any] = []
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
            if kinds is not None and is_activity_config(kinds):
                configs += kinds.profiler_configs
                kinds = kinds.activity_types
            if kinds is not None:
                filters[activity] = set(kinds)
    warn_of_not_recorded(not_recorded(configs), stacklevel=4)
    _apply_use_cuda(parsed, use_cuda)
    remaining = set(parsed)
    if ProfilerActivity.CUDA in parsed and not records_cuda(parsed):
        warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=3)
        remaining.discard(ProfilerActivity.CUDA)
    if not remaining:
        raise UsageError("activities: the list is empty. Pass at least ProfilerActivity.CPU.")
    return ParsedActivities(parsed, filters, configs)


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


def chosen_activities(
    activities: set[ProfilerActivity], filters: dict[ProfilerActivity, set[str]]
) -> ChosenActivities:
    """The result of :func:`parse_activities`, restricted to this machine."""
    kinds = {activity.name: {kind.upper() for kind in filters[activity]} for activity in filters}
    _check_kinds("CPU", kinds, list(CPU_KINDS))
    _check_kinds("CUDA", kinds, sorted({*DEVICE_KINDS, *OTHER_DEVICE_KINDS}))
    return ChosenActivities(
        cpu=any(activity.name == "CPU" for activity in activities),
        cuda=records_cuda(activities),
        cpu_kinds=frozenset(kinds["CPU"]) if "CPU" in kinds else None,
        device_kinds=device_kinds(filters),
    )


def _check_kinds(activity: str, kinds: dict[str, set[str]], allowed: list[str]) -> None:
    unknown = kinds.get(activity, set()) - set(allowed)
    if unknown:
        raise UsageError(
            f"activities: unknown kinds of {activity} event {sorted(unknown)}; known are "
            f"{', '.join(allowed)}."
        )
