"""The body of ``POST /start_profile``: fields and types as in serving engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opscope.columns.table import nearest
from opscope.errors import UsageError
from opscope.torch_api.hosted_recording import WHY_ARGUMENTS

_MOST_STEPS = 1 << 40
_MOST_TEXT = 200
_ACTIVITIES = {"CPU": "CPU", "GPU": "CUDA", "CUDA": "CUDA", "MEM": ""}
"""Activities by the engines' names; ``MEM`` is memory, which also has its own field."""


@dataclass(frozen=True)
class ProfileRequest:
    """Data to record. ``control`` validates ``output_dir`` and ``profile_prefix``."""

    output_dir: str  # relative to the root of all recordings
    num_steps: int | None  # steps to record; None: until ``POST /stop_profile``
    start_step: int | None  # number of the first step to record, from 0; None: at once
    profile_prefix: str  # beginning of the folder's name
    activities: tuple[str, ...] | None  # None: all that the machine has
    merge_profiles: bool  # all ranks of a job record to one folder, named ``profile_prefix``
    by_stage: bool  # separate verdicts for prefill and decode, with ``num_steps`` each
    arguments: Mapping[str, bool]  # arguments of :class:`opscope.profile` except ``activities``

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ProfileRequest:
        """Read a JSON object.

        If no field selects data, the request records everything that a verdict with source lines
        needs.

        Raises:
            UsageError: a field is unknown, or has a wrong type or value.
        """
        for name, value in fields.items():
            if name not in _FIELDS:
                near = nearest(name, [*_FIELDS])
                meant = f" Did you mean {near!r}?" if near else ""
                raise UsageError(
                    f"There is no field {name[:_MOST_TEXT]!r}.{meant} Fields: {', '.join(_FIELDS)}."
                )
            kind, fits = _FIELDS[name]
            if value is not None and not fits(value):
                raise UsageError(f"{name} has to be {kind}.")
        return cls(
            output_dir=fields.get("output_dir") or "",
            num_steps=fields.get("num_steps"),
            start_step=fields.get("start_step"),
            profile_prefix=fields.get("profile_prefix") or "",
            activities=_activities(fields.get("activities")),
            merge_profiles=bool(fields.get("merge_profiles")),
            by_stage=bool(fields.get("profile_by_stage")),
            arguments=_arguments(fields),
        )


def object_of(body: bytes) -> dict[str, Any]:
    """A body as a JSON object; an empty body is an empty object.

    Raises:
        UsageError: the body is anything else.
    """
    try:
        fields = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise UsageError("The body is not JSON. Send an object, or no body.") from None
    if not isinstance(fields, dict):
        raise UsageError("The body is JSON, but not an object. Send an object, or no body.")
    return fields


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_STEPS


def _is_positive(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_activities(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, str) and one in _ACTIVITIES for one in value)


_FLAG = ("true or false", _is_flag)
_TEXT = (f"a text of at most {_MOST_TEXT} characters", _is_text)
_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "output_dir": _TEXT,
    "num_steps": ("a number of steps, at least 1", _is_positive),
    "start_step": ("the number of a step, 0 or more", _is_count),
    "activities": (f"a list of some of {', '.join(_ACTIVITIES)}", _is_activities),
    "with_stack": _FLAG,
    "record_shapes": _FLAG,
    "profile_memory": _FLAG,
    "profile_by_stage": _FLAG,
    "merge_profiles": _FLAG,
    "profile_prefix": _TEXT,
}


def _activities(fields: list[str] | None) -> tuple[str, ...] | None:
    if fields is None:
        return None
    return tuple(dict.fromkeys(name for one in fields if (name := _ACTIVITIES[one]))) or None


def _arguments(fields: Mapping[str, Any]) -> dict[str, bool]:
    arguments = {
        name: bool(fields[name])
        for name in ("with_stack", "record_shapes", "profile_memory")
        if fields.get(name) is not None
    }
    if "MEM" in (fields.get("activities") or ()):
        arguments["profile_memory"] = True
    return {**(arguments or WHY_ARGUMENTS), "with_asyncio": True}
