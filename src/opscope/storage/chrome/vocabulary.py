"""What the native reader has to know of Chrome files: names, and what each category means."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from opscope.columns.codes import OVERHEAD_NAMES
from opscope.columns.column import BYTES, DURATION
from opscope.columns.dtypes import CODES_BY_CPP_NAME
from opscope.storage.chrome.categories import (
    BESIDE,
    GPU_KINDS,
    HARDWARE_COUNTERS,
    carried_gpu_category,
    carried_span_category,
    device_type,
    is_known,
    span_kind,
)

_KNOWN_KEYS = (
    "External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "Overload Name", "Collective name", "fwd_thread_id", "python_caller",
    BESIDE,
)  # fmt: skip
"""Keys of ``args`` that are not keyword arguments of the call."""


class CategoryMeaning(NamedTuple):
    """What an event is, by its category, and when that is kept beside what it is taken for."""

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
    """What a category means."""
    lower = category.lower()
    return CategoryMeaning(
        gpu_kind=GPU_KINDS.get(lower, -1),
        span_kind=span_kind(lower),
        device_type=device_type(lower),
        is_mark=lower == "trace",
        is_overhead=lower == "overhead",
        is_unknown=not is_known(lower),
        has_counters=lower == HARDWARE_COUNTERS,
        keeps_gpu=bool(carried_gpu_category(category)),
        keeps_driver=bool(carried_span_category(category, "cuLaunchKernel")),
        keeps_other=bool(carried_span_category(category, "")),
    )


def vocabulary() -> dict[str, Any]:
    """What the native reader knows before it reads."""
    return {
        "dtypes": CODES_BY_CPP_NAME,
        "overheads": {name: kind for kind, name in OVERHEAD_NAMES.items()},
        "known_keys": list(_KNOWN_KEYS),
        "beside": BESIDE,
        "least_bytes": BYTES["least"],
        "most_bytes": BYTES["most"],
        "longest_ns": DURATION["most"],
    }


def parsed(text: str) -> Any:
    """A JSON value of a Chrome file without the events in it.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_hook=_no_event, strict=False)


def _no_event(value: dict[str, Any]) -> dict[str, Any] | None:
    is_event = "ph" in value and ("ts" in value or "pid" in value)
    return None if is_event else value
