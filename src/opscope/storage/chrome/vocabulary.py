"""Vocabulary of Chrome files: categories, keys, numbers, and opscope's additions.

Kineto has a category per type of activity. opscope maps known categories to its kinds; spans of
other Kineto types (ranges of NVIDIA's range profiler, reports of an accelerator's runtime) get an
unknown kind, and spans of other tools' categories become annotations. A category that opscope's
export would write differently is stored with the event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from opscope.columns.codes import GPU_CATEGORIES, OVERHEAD_NAMES, DeviceType, GpuKind
from opscope.columns.column import BYTES, DURATION
from opscope.columns.dtypes import CODES_BY_CPP_NAME
from opscope.columns.schema import TABLES, UNKNOWN_KIND, EventKind
from opscope.columns.trace_data import TraceData

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
_WRITTEN_SPANS = ("cpu_op", "user_annotation", "python_function")

_HARDWARE_COUNTERS = "cuda_profiler_range"
"""Ranges of NVIDIA's range profiler, with device counters of their kernels."""

_GPU_KINDS: dict[str, int] = {
    **dict.fromkeys(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"), GpuKind.KERNEL),
    _HARDWARE_COUNTERS: GpuKind.ANNOTATION,
    **dict.fromkeys(("gpu_memcpy", "memcpy"), GpuKind.COPY),
    **dict.fromkeys(("gpu_memset", "memset"), GpuKind.SET),
    "cuda_sync": GpuKind.SYNCHRONISATION,
    "gpu_user_annotation": GpuKind.ANNOTATION,
}
_DEVICE_TYPES = {
    "mtia": DeviceType.MTIA,
    "hpu": DeviceType.HPU,
    "xpu": DeviceType.XPU,
    "privateuse1": DeviceType.PrivateUse1,
    "gpu": DeviceType.CUDA,
    "cuda": DeviceType.CUDA,
}
_LABEL = re.compile(r"([A-Za-z]+\d?) ?\d+$")

BESIDE = "overlaps tid"
"""Key of a row, and of its track's name: the thread beside whose track it is. Spans that overlap
without nesting are on separate tracks, because viewers drop them otherwise."""

_KNOWN_KEYS = (
    "External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "Overload Name", "Collective name", "fwd_thread_id", "python_caller",
    BESIDE,
)  # fmt: skip
"""Keys of ``args`` that are not keyword arguments of the call."""

KEY = "opscope"
"""Key in the outermost object: data of the recording that such files have no room for."""
_LEFT_OUT, _DROPPED = "left out", "dropped"
_TABLES_LEFT_OUT = (
    *("operator_calls", "script_calls", "task_runs", "tasks", "optimizers", "parameters"),
    *("compiled_sites", "compiled_origins", "compilations", "thread_samples", "source_lines"),
)

TIME_LIMIT = 1 << 61  # Nanoseconds; above it a sum of base, time and duration may exceed ``int64``


class CategoryMeaning(NamedTuple):
    """Kind of an event by category, and whether the category itself is stored."""

    gpu_kind: int
    span_kind: int
    device_type: int
    is_mark: bool
    is_overhead: bool
    is_unknown: bool
    has_counters: bool
    keeps_gpu_category: bool
    keeps_driver_category: bool
    keeps_other_category: bool


def meaning_of(category: str) -> CategoryMeaning:
    """The meaning of a category."""
    lower = category.lower()
    is_kept = bool(category) and category not in _WRITTEN_SPANS
    return CategoryMeaning(
        gpu_kind=_GPU_KINDS.get(lower, -1),
        span_kind=_SPANS.get(lower, EventKind.ANNOTATION),
        device_type=_DEVICE_TYPES.get(lower.split("_")[0], DeviceType.CUDA),
        is_mark=lower == "trace",
        is_overhead=lower == "overhead",
        is_unknown=bool(lower) and lower not in _SPANS and lower not in _GPU_KINDS,
        has_counters=lower == _HARDWARE_COUNTERS,
        keeps_gpu_category=bool(category) and category not in GPU_CATEGORIES,
        keeps_driver_category=is_kept and category != "cuda_driver",
        keeps_other_category=is_kept and category != "cuda_runtime",
    )


def vocabulary() -> dict[str, Any]:
    """Terms of Chrome files for the native reader."""
    return {
        "dtypes": CODES_BY_CPP_NAME,
        "overheads": {name: kind for kind, name in OVERHEAD_NAMES.items()},
        "known_keys": list(_KNOWN_KEYS),
        "beside": BESIDE,
        "least_bytes": BYTES["least"],
        "most_bytes": BYTES["most"],
        "longest_ns": DURATION["most"],
    }


def labelled_device_type(labels: str) -> int | None:
    """``c10::DeviceType`` by a process's label, as in "XPU 0"; None without one."""
    match = _LABEL.match(labels)
    return _DEVICE_TYPES.get(match[1].lower()) if match else None


def file_device_type(categories: Iterable[str]) -> int:
    """Device type from the file's runtime categories; the category of all kernels is ``kernel``."""
    runtimes = {
        category.split("_")[0]
        for category in map(str.lower, categories)
        if category.endswith(("_runtime", "_driver"))
    }
    device_types = {_DEVICE_TYPES[runtime] for runtime in runtimes if runtime in _DEVICE_TYPES}
    return device_types.pop() if len(device_types) == 1 else DeviceType.CUDA


def parsed(text: str) -> Any:
    """A JSON value of a Chrome file, without events inside.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_hook=_no_event, strict=False)


def _no_event(value: dict[str, Any]) -> dict[str, Any] | None:
    is_event = "ph" in value and ("ts" in value or "pid" in value)
    return None if is_event else value


def integer(value: Any, default: int = 0, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
    """``value`` if it is an integer (or the text of one) within bounds, else ``default``."""
    if isinstance(value, str) and len(value) < 21 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and low <= value <= high else default


def recorded_counts(trace: TraceData) -> dict[str, Any]:
    """The value of :data:`KEY` in a file of ``trace``; empty if nothing is omitted or lost."""
    rows = {name: len(trace.table(name)) for name in _TABLES_LEFT_OUT}
    recorded = {
        _LEFT_OUT: {name: count for name, count in rows.items() if count},
        _DROPPED: int(trace.ledger.lost()),
    }
    return {key: value for key, value in recorded.items() if value}


def left_out(recorded: Any) -> dict[str, int]:
    """Omitted rows by table, from a value of :func:`recorded_counts`."""
    counts = recorded.get(_LEFT_OUT) if isinstance(recorded, dict) else None
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if name in TABLES and _is_count(count)}


def dropped(recorded: Any) -> int:
    """Number of events that the exported recording had lost."""
    count: Any = recorded.get(_DROPPED) if isinstance(recorded, dict) else 0
    return count if _is_count(count) else 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 53
