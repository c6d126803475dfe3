"""A configuration as Dynolog hands it out: lines of ``KEY=VALUE``."""

from __future__ import annotations

import os
from dataclasses import dataclass

_LONGEST_S = 3600.0
_DEFAULT_S = 0.5
_FLAGS = {
    "PROFILE_REPORT_INPUT_SHAPES": "record_shapes",
    "PROFILE_PROFILE_MEMORY": "profile_memory",
    "PROFILE_WITH_STACK": "with_stack",
    "PROFILE_WITH_FLOPS": "with_flops",
    "PROFILE_WITH_MODULES": "with_modules",
}


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """What is wanted.

    Attributes:
        path: of the Chrome trace, with the process's number in its name as Kineto puts it there.
        flags: arguments of a profile.
        start_ns: Unix time to begin at; 0: at once.
        duration_s: how long, where steps do not say it.
        steps: how many steps; 0: for a time.
        start_multiple: begin at a step whose number this divides.
    """

    path: str
    flags: dict[str, bool]
    start_ns: int
    duration_s: float
    steps: int
    start_multiple: int

    @classmethod
    def parse(cls, text: str) -> TraceRequest | None:
        """What a configuration says; None where it asks for no trace.

        Raises:
            ValueError: a value is no number.
        """
        given = dict(_lines(text))
        log_file = given.get("ACTIVITIES_LOG_FILE", "")
        if not log_file:
            return None
        milliseconds = float(given.get("ACTIVITIES_DURATION_MSECS", 0))
        seconds = milliseconds / 1e3 or float(given.get("ACTIVITIES_DURATION_SECS", _DEFAULT_S))
        return cls(
            path=_with_process(log_file),
            flags={
                ours: _is_on(given[theirs]) for theirs, ours in _FLAGS.items() if theirs in given
            },
            start_ns=int(given.get("PROFILE_START_TIME", 0)) * 1_000_000,
            duration_s=min(max(seconds, 0.001), _LONGEST_S),
            steps=max(int(given.get("ACTIVITIES_ITERATIONS", 0)), 0),
            start_multiple=max(int(given.get("PROFILE_START_ITERATION_ROUNDUP", 1)), 1),
        )


def _lines(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.rstrip("\0").splitlines():
        key, equals, value = line.partition("#")[0].partition("=")
        if equals:
            pairs.append((key.strip(), value.strip()))
    return pairs


def _is_on(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on")


def _with_process(path: str) -> str:
    """``trace.json`` becomes ``trace_4711.json``."""
    for suffix in (".pt.trace.json", ".json"):
        if path.endswith(suffix):
            return f"{path.removesuffix(suffix)}_{os.getpid()}{suffix}"
    return f"{path}_{os.getpid()}.json"
