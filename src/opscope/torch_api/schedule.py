"""The profiler's schedule: the steps to record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from opscope.errors import UsageError


class ProfilerAction(Enum):
    """Action of the profiler during one step. Values as in torch.profiler."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


Schedule = Callable[[int], ProfilerAction]


@dataclass(frozen=True, kw_only=True)
class CyclicSchedule:
    """A schedule with the arguments of :func:`schedule`, unchecked and without its warning."""

    wait: int
    warmup: int
    active: int
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: int = 0

    def __call__(self, step: int) -> ProfilerAction:
        """Action of a step."""
        if step < 0:
            raise UsageError(f"Step numbers begin at 0, but got {step}.")
        if step < self.skip_first:
            return ProfilerAction.NONE
        step -= self.skip_first
        if self.skip_first_wait != 0:
            step += self.wait
        cycle, position = divmod(step, self.wait + self.warmup + self.active)
        if self.repeat > 0 and cycle >= self.repeat:
            return ProfilerAction.NONE
        if position < self.wait:
            return ProfilerAction.NONE
        if position < self.wait + self.warmup:
            return ProfilerAction.WARMUP
        last = position == self.wait + self.warmup + self.active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    def __str__(self) -> str:
        first_wait = 0 if self.skip_first_wait else self.wait
        parts = [f"skip {self.skip_first}"] if self.skip_first else []
        parts += [f"wait {first_wait}", f"warm up {self.warmup}", f"record {self.active}"]
        again = f"{self.repeat} times" if self.repeat else "until the end"
        later = f", waiting {self.wait} before each later cycle" if self.skip_first_wait else ""
        return f"steps: {', '.join(parts)}; {again}{later}"


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """A schedule of cycles: wait, warm up, record; for ``profile(schedule=...)``.

    Args:
        wait: steps without recording, in each cycle.
        warmup: steps in which the recorder is ready but no data is stored.
        active: steps to record; the trace is ready after the last of them.
        repeat: number of cycles; 0 repeats until profiling ends.
        skip_first: steps without recording before the first cycle.
        skip_first_wait: non-zero omits the first cycle's ``wait``.

    Returns:
        A callable from step number to :class:`ProfilerAction`; ``print`` explains it.

    Raises:
        UsageError: a negative number, or ``active`` below 1.
    """
    counts = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    for name, value in counts.items():
        if value < 0:
            raise UsageError(f"schedule({name}={value}): must be 0 or more.")
    if active <= 0:
        raise UsageError(f"schedule(active={active}): at least one step must be recorded.")
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    return CyclicSchedule(
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        skip_first=skip_first,
        skip_first_wait=skip_first_wait,
    )


def record_every_step(step: int) -> ProfilerAction:
    """Default schedule: record from start to stop."""
    return ProfilerAction.RECORD
