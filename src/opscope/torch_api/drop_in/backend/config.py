"""ProfilerConfig, kinds in activity filters, and switches that are in torch's C++."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.base.cached_property import cached_property
from opscope.columns.device_kinds import DEVICE_KINDS, OTHER_DEVICE_KINDS, device_kinds
from opscope.torch_api.activities import CPU_KINDS, records_cuda
from opscope.torch_api.settings import ProfileSettings, experimental_switches

# Kinds that torch accepts in a filter for the CPU but never records there.
_IGNORED_KINDS = frozenset({
    "CUDA_RUNTIME", "CUDA_DRIVER", "XPU_RUNTIME", "XPU_DRIVER", "MTIA_RUNTIME",
    "PRIVATEUSE1_RUNTIME", "PRIVATEUSE1_DRIVER", "EXTERNAL_CORRELATION",
})  # fmt: skip

# Kinds that torch accepts in a filter for devices but opscope does not record.
_IGNORED_DEVICE_KINDS = frozenset({"COLLECTIVE_COMM", "CUDA_PROFILER_RANGE", "GPU_PM_COUNTER"})

_UNSUPPORTED = {
    "profiler_metrics": "hardware counters of kernels",
    "profiler_measure_per_kernel": "hardware counters of kernels",
    "performance_events": "performance counters of the processor",
    "custom_profiler_config": "another backend of torch's profiler",
}
"""Switches for data that opscope cannot record, with that data."""


@dataclass(frozen=True)
class ProfilerConfig:
    """torch's ``ProfilerConfig``, with readable fields."""

    state: Any
    report_input_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    experimental_config: Any = None
    trace_id: str = ""

    def switches(self) -> tuple[bool, bool, bool, bool, bool]:
        """The switches in the order of torch's constructor."""
        return (
            self.report_input_shapes,
            self.profile_memory,
            self.with_stack,
            self.with_flops,
            self.with_modules,
        )

    @cached_property
    def settings(self) -> ProfileSettings:
        """The requested settings."""
        return ProfileSettings(
            record_shapes=self.report_input_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            as_torch=True,
            switches=experimental_switches(self.experimental_config),
        )


def warn_of_unsupported(switches: Mapping[str, Any]) -> None:
    """Warn of switches for data that will not be recorded."""
    unsupported = [name for name in _UNSUPPORTED if switches.get(name)]
    if unsupported:
        data = ", ".join(dict.fromkeys(_UNSUPPORTED[name] for name in unsupported))
        warnings.warn(
            f"_ExperimentalConfig({', '.join(unsupported)}): opscope records no {data}; everything "
            "else is recorded. For these, use torch's own profiler, without the drop-in.",
            stacklevel=5,
        )


def kinds_of_cpu_events(filters: Mapping[Any, set[str]]) -> frozenset[str] | None:
    """The filter's kinds of CPU event; None without a filter for the CPU."""
    for activity, kinds in filters.items():
        if activity.name != "CPU":
            continue
        for kind in kinds:
            if kind not in CPU_KINDS and kind not in _IGNORED_KINDS:
                raise RuntimeError(f"Unknown or non-member activity type name: '{kind}'")
        return frozenset(kinds)
    return None


def kinds_of_device_activity(filters: Mapping[Any, set[str]]) -> frozenset[str] | None:
    """The filter's kinds of device activity; None without a filter for devices."""
    kinds = device_kinds(filters)
    unknown = (kinds or frozenset()) - {
        *DEVICE_KINDS,
        *OTHER_DEVICE_KINDS,
        *_IGNORED_DEVICE_KINDS,
    }
    if unknown and records_cuda(filters):
        raise RuntimeError(f"Unknown or non-member activity type name: '{min(unknown)}'")
    return kinds


_switched_off: dict[str, bool] = {"forward_backward": False, "concrete_inputs": False}


def set_forward_backward_enabled(enabled: bool) -> None:
    """Set whether files have arrows from forward to backward."""
    _switched_off["forward_backward"] = not enabled


def set_concrete_inputs_enabled(enabled: bool) -> None:
    """Set whether list-of-number arguments show their values."""
    _switched_off["concrete_inputs"] = not enabled


def switches_off() -> dict[str, Any]:
    """Switches that are off, in the form of a trace's metadata."""
    left_out = [name for name, is_off in _switched_off.items() if is_off]
    return {"left_out": left_out} if left_out else {}
