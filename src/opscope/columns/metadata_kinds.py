"""Types of the metadata keys that opscope reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from opscope.base.untrusted_files import Between, Shape, has_shape
from opscope.columns.column import TIME

ENDED = "ended"
"""End of a recording that another process wrote: ``how``, whether it is ``whole``, and the time in
which records were dropped."""

DETAIL = "recorded_in_detail"
"""Intervals recorded in more detail than the rest: ``options``, and begin, end and finished
optimizer steps of each of the ``stretches``; None if the process was killed in it."""

WARM = "program_was_warm"  # whether this part of a recording has no start-up
OVER = "program_over_ns"
"""End of the program's own code on all threads that Python waits for; exit functions follow."""

STEPS = "steps_of_program"
"""For a recording of some steps: the number of all steps of the program that ``ended``, and the
time from the first end to the last (``passed_ns``)."""

BETWEEN = "share_between_steps"
"""For a part in detail: the share of the program's time from its first step on that is in no step.
Without ``STEPS`` the part itself is between or after steps."""

SAMPLE = "sample"
"""For a sample of a long recording: its steps, the recording's steps (0 if unknown), and the
recording's length in nanoseconds."""

_MAX_DEPTH = 100


def metadata_problem(key: str, value: Any) -> str:
    """Problem of a metadata value; empty without one, or if no code reads that key."""
    if not _is_shallow(value):
        return "is nested too deeply"
    kind = _KINDS.get(key)
    if kind is None or kind[1](value):
        return ""
    text = repr(value)
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return f"is {shown}, and should be {kind[0]}"


def sound_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Valid metadata of a foreign file, and the omitted keys."""
    valid = {key: value for key, value in metadata.items() if not metadata_problem(key, value)}
    return valid, [key for key in metadata if key not in valid]


def _is_shallow(value: Any) -> bool:
    """Whether the value can be encoded within the recursion limit."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


def _is(shape: Shape) -> Callable[[Any], bool]:
    return lambda value: has_shape(value, shape)


def _is_ended(value: Any) -> bool:
    return has_shape(value, {"how": str, "whole": bool}) and all(
        has_shape(value.get(key), (_TIME, None)) for key in ("dropped_from_ns", "dropped_until_ns")
    )


def _is_overloads(value: Any) -> bool:
    return isinstance(value, dict) and has_shape([*value.values()], [[str]])


def _is_devices(value: Any) -> bool:
    """Kineto's descriptions of devices: all known fields except names are numbers."""
    return has_shape(value, [{}]) and all(
        isinstance(device.get(key, 0), int | float) and math.isfinite(device.get(key, 0))
        for device in value
        for key in _DEVICE_NUMBERS
    )


_DEVICE_NUMBERS = (
    *("id", "numSms", "maxThreadsPerMultiprocessor", "regsPerMultiprocessor"),
    "sharedMemPerMultiprocessor",
)
_TIME = Between(TIME["least"], TIME["most"])
_COUNT = Between(0, TIME["most"])
_PROCESS = Between(0, (1 << 32) - 1)

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("start_ns", "end_ns", "end_monotonic_ns", OVER), ("a time", _is(_TIME))),
    **dict.fromkeys(("process_id", "parent_process_id"), ("a process id", _is(_PROCESS))),
    **dict.fromkeys(("command_line", "left_out"), ("a list of texts", _is([str]))),
    WARM: ("true or false", _is(bool)),
    DETAIL: (
        "which stretches were recorded in detail",
        _is(
            {
                "options": {},
                "stretches": [{"start_ns": _TIME, "end_ns": _TIME, "steps": (_COUNT, None)}],
            }
        ),
    ),
    "deviceProperties": ("a list of devices", _is_devices),
    "torch_version": ("a text", _is(str)),
    "overloads": ("an object of lists of texts", _is_overloads),
    ENDED: ("how a recording ended", _is_ended),
    STEPS: (
        "how many steps ended, and how long that took",
        _is({"ended": _COUNT, "passed_ns": _COUNT}),
    ),
    BETWEEN: ("a share", lambda value: isinstance(value, float) and 0 <= value <= 1),
    SAMPLE: (
        "how much of a recording it is",
        _is({"steps": _COUNT, "of_steps": _COUNT, "of_ns": _COUNT}),
    ),
    **dict.fromkeys(
        ("options", "gpu", "user", "process_groups", "process_names"),
        ("an object", _is({})),
    ),
}
"""Key to its required value: description and test."""
