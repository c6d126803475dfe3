"""What the categories of a Chrome file mean here, and which are carried along as they are.

Kineto has a category per type of activity. Those that opscope has a kind for are that kind; spans
of its other types (ranges of NVIDIA's range profiler, what an accelerator's runtime reports) are of
no kind that opscope knows, and spans of any other tool's categories count as annotations. Where
opscope would write another category than it read, it keeps the one it read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from opscope.columns.codes import DeviceType, GpuKind
from opscope.columns.schema import UNKNOWN_KIND, EventKind

_RUNTIME = EventKind.RUNTIME_CALL
_SPANS: dict[str, int] = {
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "python_function": EventKind.PYTHON_CALL,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "hip_runtime"), _RUNTIME),
    **dict.fromkeys(("xpu_runtime", "mtia_runtime", "privateuse1_runtime"), _RUNTIME),
    **dict.fromkeys(("privateuse1_driver", "xpu_driver", "glow_runtime"), _RUNTIME),
    **dict.fromkeys(("cuda_event", "external_correlation", "mtia_insight"), UNKNOWN_KIND),
    **dict.fromkeys(("mtia_workloadd", "mtia_counters"), UNKNOWN_KIND),
    **dict.fromkeys(("collective_comm", "overhead", "unknown"), UNKNOWN_KIND),
}

HARDWARE_COUNTERS = "cuda_profiler_range"
"""Ranges of NVIDIA's range profiler: what the device counted while the kernels in one ran."""

GPU_KINDS: dict[str, int] = {
    **dict.fromkeys(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"), GpuKind.KERNEL),
    HARDWARE_COUNTERS: GpuKind.ANNOTATION,
    **dict.fromkeys(("gpu_memcpy", "memcpy"), GpuKind.COPY),
    **dict.fromkeys(("gpu_memset", "memset"), GpuKind.SET),
    "cuda_sync": GpuKind.SYNCHRONISATION,
    "gpu_user_annotation": GpuKind.ANNOTATION,
}
"""``gpu.kind`` by category in lower case."""

_WRITTEN_GPU = {
    "kernel": GpuKind.KERNEL,
    "gpu_memcpy": GpuKind.COPY,
    "gpu_memset": GpuKind.SET,
    "cuda_sync": GpuKind.SYNCHRONISATION,
    "gpu_user_annotation": GpuKind.ANNOTATION,
}
_WRITTEN_SPANS = ("cpu_op", "user_annotation", "python_function")

BESIDE = "overlaps tid"
"""Key of a row, and of its line's name, that says beside which thread the line is: spans that
overlap without nesting are on lines of their own numbers, because viewers drop them otherwise."""


def span_kind(category: str) -> int:
    """``events.kind`` of a span, by its category in lower case."""
    return _SPANS.get(category, EventKind.ANNOTATION)


def is_known(category: str) -> bool:
    """Whether it is one of Kineto's, or none at all."""
    return not category or category in _SPANS or category in GPU_KINDS


_DEVICE_TYPES = {
    "mtia": DeviceType.MTIA,
    "hpu": DeviceType.HPU,
    "xpu": DeviceType.XPU,
    "privateuse1": DeviceType.PrivateUse1,
    "gpu": DeviceType.CUDA,
    "cuda": DeviceType.CUDA,
}


def device_type(category: str) -> int:
    """``c10::DeviceType`` of a device's activity, by its category in lower case."""
    return _DEVICE_TYPES.get(category.split("_")[0], DeviceType.CUDA)


def labelled_device_type(labels: str) -> int | None:
    """The same by the labels of a process, as in "XPU 0"; None where they name no device."""
    match = _LABEL.match(labels)
    return _DEVICE_TYPES.get(match[1].lower()) if match else None


def file_device_type(categories: Iterable[str]) -> int:
    """The same of kernels that nothing else is said of, by the runtimes that a file has calls of.

    Kineto calls kernels of all devices ``kernel``.
    """
    runtimes = {
        category.split("_")[0]
        for category in map(str.lower, categories)
        if category.endswith(("_runtime", "_driver"))
    }
    named = {_DEVICE_TYPES[one] for one in runtimes if one in _DEVICE_TYPES}
    return named.pop() if len(named) == 1 else DeviceType.CUDA


_LABEL = re.compile(r"([A-Za-z]+\d?) ?\d+$")


def carried_span_category(category: str, name: str) -> str:
    """The category of a span if opscope would write another one for it; empty if it would not."""
    if category in _WRITTEN_SPANS or not category:
        return ""
    is_driver = name.startswith("cu") and not name.startswith("cuda")
    return "" if category == ("cuda_driver" if is_driver else "cuda_runtime") else category


def carried_gpu_category(category: str) -> str:
    """The same of a device's activity."""
    return "" if category in _WRITTEN_GPU else category
