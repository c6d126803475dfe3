"""Vocabulary of Chrome files: categories, keys, numbers, and opscope's additions.

Kineto has a category per type of activity. Those that opscope has a kind for are that kind; spans
of its other types (ranges of NVIDIA's range profiler, what an accelerator's runtime reports) are of
an unknown kind, and spans of any other tool's categories count as annotations. Where opscope would
write another category than it read, it keeps the one it read.
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
"""Ranges of NVIDIA's range profiler: what the device counted while the kernels in one ran."""

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
"""Key of a row, and of its line's name, that says beside which thread the line is: spans that
overlap without nesting are on lines of their own numbers, because viewers drop them otherwise."""

_KNOWN_KEYS = (
    "External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "Overload Name", "Collective name", "fwd_thread_id", "python_caller",
    BESIDE,
)  # fmt: skip
"""Keys of ``args`` that are not keyword arguments of the call."""

KEY = "opscope"
"""Of the outermost object of the file: what its recording had and such files have no room for."""
_LEFT_OUT, _DROPPED = "left out", "dropped"
_TABLES_LEFT_OUT = (
    *("operator_calls", "script_calls", "task_runs", "tasks", "optimizers", "parameters"),
    *("compiled_sites", "compiled_origins", "compilations", "thread_samples", "source_lines"),
)

TIME_LIMIT = 1 << 61
"""Nanoseconds; beyond it a sum of base, time and duration could leave ``int64``."""


class CategoryMeaning(NamedTuple):
    """Kind of an event, from its category, and whether the category itself is kept."""

    gpu_kind: int
    span_kind: int
    device_type: int
    is_mark: bool
    is_overhead: bool
    is_unknown: bool
    has_counters: bool
    keeps_gpu: bool
    keeps_driver: bool
    keeps_other: bool


def meaning_of(category: str) -> CategoryMeaning:
    """Look up the meaning of a category."""
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
        keeps_gpu=bool(category) and category not in GPU_CATEGORIES,
        keeps_driver=is_kept and category != "cuda_driver",
        keeps_other=is_kept and category != "cuda_runtime",
    )


def vocabulary() -> dict[str, Any]:
    """Terms of Chrome files that the native reader needs."""
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
    """``c10::DeviceType`` by the labels of a process, as in "XPU 0"; None where there is none."""
    match = _LABEL.match(labels)
    return _DEVICE_TYPES.get(match[1].lower()) if match else None


def file_device_type(categories: Iterable[str]) -> int:
    """Device type of kernels without other attributes, from the runtimes whose calls are in the
    file: Kineto calls kernels of all devices ``kernel``."""
    runtimes = {
        category.split("_")[0]
        for category in map(str.lower, categories)
        if category.endswith(("_runtime", "_driver"))
    }
    named = {_DEVICE_TYPES[one] for one in runtimes if one in _DEVICE_TYPES}
    return named.pop() if len(named) == 1 else DeviceType.CUDA


def parsed(text: str) -> Any:
    """A JSON value of a Chrome file without the events in it.

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
    """The value of :data:`KEY` in a file of ``trace``; empty where nothing is left out or lost."""
    rows = {name: len(trace.table(name)) for name in _TABLES_LEFT_OUT}
    recorded = {
        _LEFT_OUT: {name: count for name, count in rows.items() if count},
        _DROPPED: int(trace.ledger.lost()),
    }
    return {key: value for key, value in recorded.items() if value}


def left_out(recorded: Any) -> dict[str, int]:
    """Rows by table that a file's recording had and the file has not, as :func:`said_of` says."""
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
