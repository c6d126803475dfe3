"""What the categories of a Chrome file mean here, and which are carried along as they are.

Kineto has a category per type of activity. Those that opscope has a kind for are that kind; spans
of its other types (ranges of NVIDIA's range profiler, what an accelerator's runtime reports) are of
no kind that opscope knows, and spans of any other tool's categories count as annotations. Where
opscope would write another category than it read, it keeps the one it read.
"""

from __future__ import annotations

from opscope.trace.codes import DeviceType, GpuKind
from opscope.trace.schema import UNKNOWN_KIND, EventKind

_RUNTIME = EventKind.RUNTIME_CALL
_SPANS: dict[str, int] = {
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "python_function": EventKind.PYTHON_CALL,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "hip_runtime"), _RUNTIME),
    **dict.fromkeys(("xpu_runtime", "mtia_runtime", "privateuse1_runtime"), _RUNTIME),
    **dict.fromkeys(("privateuse1_driver", "xpu_driver", "glow_runtime"), _RUNTIME),
    **dict.fromkeys(("cuda_profiler_range", "cuda_event", "external_correlation"), UNKNOWN_KIND),
    **dict.fromkeys(("mtia_insight", "mtia_workloadd", "mtia_counters", "hpu_op"), UNKNOWN_KIND),
    **dict.fromkeys(("collective_comm", "overhead", "unknown"), UNKNOWN_KIND),
}

GPU_KINDS: dict[str, int] = {
    **dict.fromkeys(("kernel", "concurrent_kernel", "mtia_ccp_events"), GpuKind.KERNEL),
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


def device_type(category: str) -> int:
    """``c10::DeviceType`` of a device's activity, by its category in lower case."""
    return DeviceType.MTIA if category.startswith("mtia") else DeviceType.CUDA


def carried_span_category(category: str, name: str) -> str:
    """The category of a span if opscope would write another one for it; empty if it would not."""
    if category in _WRITTEN_SPANS or not category:
        return ""
    is_driver = name.startswith("cu") and not name.startswith("cuda")
    return "" if category == ("cuda_driver" if is_driver else "cuda_runtime") else category


def carried_gpu_category(category: str) -> str:
    """The same of a device's activity."""
    return "" if category in _WRITTEN_GPU else category
