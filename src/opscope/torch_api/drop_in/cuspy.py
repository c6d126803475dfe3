"""torch.profiler's other ways to record devices, which opscope takes the place of.

torch can have Python collect what CUPTI reports (Cuspy in 2.15, the CUPTI monitor in 2.13 and
2.14) instead of Kineto. Under the switch opscope asks CUPTI, whichever was chosen: two at once
would take each other's records.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opscope.torch_api.activity_configs import (
    not_recorded,
    wants_synchronisations,
    warn_of_not_recorded,
)
from opscope.torch_api.experimental_switches import with_switch

_WAYS = ("_use_cuspy", "_use_cupti_monitor")
"""Attributes of ``torch.profiler.profile`` that say that one of the others was chosen."""


def prepare_trace_of_ours(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """``_KinetoProfile.prepare_trace`` that starts nobody else's collection of device activity."""

    @functools.wraps(original)
    def prepare_trace(self: Any) -> None:
        with _without_others(self):
            original(self)
        _import_inductor()

    return prepare_trace


def _import_inductor() -> None:
    """What torch asks about CUDA graphs, ahead of the recording.

    Older ones import it after that has begun, which would be most of what a short one holds.
    """
    if importlib.util.find_spec("torch._inductor") is not None:
        importlib.import_module("torch._inductor.config")


@contextmanager
def _without_others(profile: Any) -> Iterator[None]:
    given = getattr(profile, "activity_configs", {})
    configs = [item for config in given.values() for item in config.profiler_configs]
    chosen = next((name for name in _WAYS if getattr(profile, name, False)), None)
    if chosen is not None:
        setattr(profile, chosen, False)
        if getattr(profile, "_cuspy_config", None) is not None:
            configs.append(profile._cuspy_config)  # also made of what a backend was configured with
            profile._cuspy_config = None
    if wants_synchronisations(configs):
        profile.experimental_config = with_switch(
            profile.experimental_config, "enable_cuda_sync_events", True
        )
    warn_of_not_recorded(not_recorded(configs), stacklevel=5)
    if not given:
        yield
        return
    # torch asks for a device where counters are wanted, which are not going to be recorded.
    profile.activity_configs = {
        activity: type(config)(activity_types=config.activity_types)
        for activity, config in given.items()
    }
    try:
        yield
    finally:
        profile.activity_configs = given
