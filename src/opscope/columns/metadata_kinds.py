"""What kind of value each key of a trace's metadata has, of those that opscope itself looks at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from opscope.columns.column import TIME

ENDED = "ended"
"""Of a recording that its own process did not write: ``how`` it ended, whether it is ``whole``, and
from when until when records found no room."""

WARM = "program_was_warm"
"""Recorded once the program had started, so that there is no start-up in it."""

OVER = "program_over_ns"
"""When the program's own code had ended, on all threads that Python waits for; after that Python
itself ends, and what was registered for its exit runs."""

STEPS = "steps_of_program"
"""Of a recording of some steps: how many steps of the program ended (``ended``), recorded or not,
and the program's time from the end of the first to that of the last (``passed_ns``)."""

_DEEPEST = 100


def metadata_problem(key: str, value: Any) -> str:
    """What is wrong with a value; empty if nothing is, or if no code reads that key."""
    if not _is_shallow(value):
        return "is nested too deeply"
    known = _KINDS.get(key)
    if known is None or known[1](value):
        return ""
    return f"is {_spelled(value)}, and should be {known[0]}"


def sound_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What of a foreign file's metadata can be used, and the keys that are left out."""
    sound = {key: value for key, value in metadata.items() if not metadata_problem(key, value)}
    return sound, [key for key in metadata if key not in sound]


def _is_shallow(value: Any) -> bool:
    """Whether it is nested so little that encoding it cannot exceed the recursion limit."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


def _spelled(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _is_integer(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_time(value: Any) -> bool:
    return _is_integer(value, TIME["least"], TIME["most"])


def _is_process(value: Any) -> bool:
    return _is_integer(value, 0, (1 << 32) - 1)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_ended(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("how"), str)
        and isinstance(value.get("whole"), bool)
        and all(
            value.get(key) is None or _is_time(value[key])
            for key in ("dropped_from_ns", "dropped_until_ns")
        )
    )


def _is_steps(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_integer(value.get("ended"), 0, TIME["most"])
        and _is_integer(value.get("passed_ns"), 0, TIME["most"])
    )


def _is_overloads(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_texts, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_devices(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_device, value))


def _is_device(value: Any) -> bool:
    """Kineto's description of one device: numbers but for its name."""
    return isinstance(value, dict) and all(
        isinstance(value.get(key, 0), int | float) and math.isfinite(value.get(key, 0))
        for key in _DEVICE_NUMBERS
    )


_DEVICE_NUMBERS = (
    "id",
    "numSms",
    "maxThreadsPerMultiprocessor",
    "regsPerMultiprocessor",
    "sharedMemPerMultiprocessor",
)

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "start_ns": ("a time", _is_time),
    "end_ns": ("a time", _is_time),
    "end_monotonic_ns": ("a time", _is_time),
    OVER: ("a time", _is_time),
    "process_id": ("a process id", _is_process),
    "parent_process_id": ("a process id", _is_process),
    "command_line": ("a list of texts", _is_texts),
    WARM: ("true or false", lambda value: isinstance(value, bool)),
    "left_out": ("a list of texts", _is_texts),
    "deviceProperties": ("a list of devices", _is_devices),
    "torch_version": ("a text", _is_text),
    "overloads": ("an object of lists of texts", _is_overloads),
    ENDED: ("how a recording ended", _is_ended),
    STEPS: ("how many steps ended, and how long that took", _is_steps),
    **dict.fromkeys(
        ("options", "gpu", "user", "operator_schemas", "process_groups", "process_names"),
        ("an object", _is_mapping),
    ),
}
"""Key to what it should be, in words and as a test."""
