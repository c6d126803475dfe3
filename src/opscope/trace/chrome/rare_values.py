"""What the native reader asks Python: what categories mean, and values that are hardly ever there.

It asks once for each category and for each way that an argument is printed. All else is for files
that torch.profiler does not write: lists as names, times of thirty digits, numerals of any script.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from opscope.trace.chrome.categories import (
    BESIDE,
    GPU_KINDS,
    HARDWARE_COUNTERS,
    carried_gpu_category,
    carried_span_category,
    device_type,
    is_known,
    span_kind,
)
from opscope.trace.chrome.numbers import NumberText, integer, nanoseconds
from opscope.trace.codes import OVERHEAD_NAMES
from opscope.trace.column import BYTES, DURATION
from opscope.trace.dtypes import CODES_BY_CPP_NAME
from opscope.trace.schema import ScalarType

_KNOWN_KEYS = (
    "External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "Overload Name", "Collective name", "fwd_thread_id", "python_caller",
    BESIDE,
)  # fmt: skip
"""Keys of ``args`` that are not keyword arguments of the call."""

_INTEGER = re.compile(r"-?\d+$")
_COMPLEX = re.compile(r".*j\)?$")


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


class RareValues:
    """Answers for ``_native.ChromeReader``. None of them raises."""

    def category(self, text: str) -> CategoryMeaning:
        """What a category means."""
        lower = text.lower()
        return CategoryMeaning(
            gpu_kind=GPU_KINDS.get(lower, -1),
            span_kind=span_kind(lower),
            device_type=device_type(lower),
            is_mark=lower == "trace",
            is_overhead=lower == "overhead",
            is_unknown=not is_known(lower),
            has_counters=lower == HARDWARE_COUNTERS,
            keeps_gpu=bool(carried_gpu_category(text)),
            keeps_driver=bool(carried_span_category(text, "cuLaunchKernel")),
            keeps_other=bool(carried_span_category(text, "")),
        )

    def spelled(self, text: str) -> str:
        """A JSON value as Python prints it."""
        return str(parsed(text))

    def whole(self, text: str) -> int | None:
        """The integer that a text is, of 64 bits with or without a sign."""
        high = (1 << 64) - 1
        found = integer(text, high + 1, high=high)
        return found if found <= high else None

    def nanoseconds(self, text: str) -> int | None:
        """A time in microseconds, in nanoseconds."""
        return nanoseconds(text)

    def scalar_type(self, text: str) -> int:
        """:class:`ScalarType` of an argument that is printed like that."""
        if text in ("True", "False"):
            return ScalarType.BOOL
        if _INTEGER.match(text):
            return ScalarType.INT
        if _COMPLEX.match(text):
            return ScalarType.COMPLEX
        try:
            float(text)
        except ValueError:
            return ScalarType.STRING if text else ScalarType.OTHER
        return ScalarType.FLOAT


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
    """A JSON value of a Chrome file: its numbers are exact, and events in it are gone.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_hook=_no_event, parse_float=NumberText, strict=False)


def _no_event(value: dict[str, Any]) -> dict[str, Any] | None:
    is_event = "ph" in value and ("ts" in value or "pid" in value)
    return None if is_event else value
