"""The fixture ``profiled``: functions recorded step by step, and compared."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import opscope
from opscope.analysis.diff.gate import Outcome, judge, read_gate
from opscope.analysis.diff.result import Diff, TimeVerdict
from opscope.cli.diff import diff_sections
from opscope.cli.views.results import as_markdown
from opscope.errors import UsageError

_RECORDED = {"record_shapes": True, "profile_memory": True, "with_modules": True}


@dataclass(frozen=True)
class Profiler:
    """The fixture; call it with the function to record.

    Attributes:
        lock: a file locked during each recording, so that parallel tests do not slow each other's
            recordings.
        saves: whether recordings become baselines.
    """

    lock: Path
    saves: bool

    def __call__(
        self,
        step: Callable[[], object],
        *,
        steps: int = 20,
        warm_up: int = 3,
        recordings: int = 3,
        **options: Any,
    ) -> Profiled:
        """A function to record; recording happens when the result is used.

        Args:
            step: one step to measure; called without arguments.
            steps: number of calls in a recording.
            warm_up: number of calls before each recording.
            recordings: number of recordings.
            **options: of ``opscope.profile``; by default, argument shapes, memory and modules are
                recorded.
        """
        if min(steps, recordings) < 1 or warm_up < 0:
            raise UsageError(
                f"profiled() cannot record {recordings} times {steps} steps after {warm_up}. Give "
                "at least one recording with one step."
            )
        return Profiled(self, step, steps, warm_up, recordings, {**_RECORDED, **options})


@dataclass(eq=False)
class Profiled:
    """One function to record, with its recordings.

    Attributes:
        profiler: the fixture.
        step: the function.
        steps: number of calls in a recording.
        warm_up: number of calls before each recording.
        count: number of recordings.
        options: options of the recording.
        traces: recordings so far.
    """

    profiler: Profiler
    step: Callable[[], object]
    steps: int
    warm_up: int
    count: int
    options: dict[str, Any]
    traces: list[opscope.Trace] = field(default_factory=list)

    @property
    def recordings(self) -> Sequence[opscope.Trace]:
        """All recordings; missing ones are made now."""
        _record_in_turns([self])
        return self.traces

    def diff(self, baseline: Profiled | str | os.PathLike[str]) -> Diff:
        """Differences from ``baseline``: another function, or a folder of recordings.

        Two functions are recorded in turns, so that a busy machine affects both.
        """
        if isinstance(baseline, Profiled):
            _record_in_turns([baseline, self])
            return opscope.diff(baseline.traces, self.traces)
        return opscope.diff(_in_folder(Path(baseline)), self.recordings)

    def assert_no_slower_than(
        self, baseline: Profiled | str | os.PathLike[str], gate: str = ""
    ) -> None:
        """Fail if a step, or any place in it, is certain to take longer than in ``baseline``.

        Args:
            baseline: another function, or the folder that ``pytest --opscope-save-baselines``
                writes. Times of another machine are no baseline; numbers of calls are.
            gate: conditions as of ``opscope diff --gate``, such as ``count==,memory<=+1%``. A
                condition that cannot be judged fails. With conditions, only they decide.

        Raises:
            AssertionError: it is slower, a condition does not hold, or nothing can be said.
        """
        conditions = read_gate(gate) if gate else []
        if self.profiler.saves and not isinstance(baseline, Profiled):
            self.save(baseline)
            return
        found = self.diff(baseline)
        judgements = judge(found, conditions)
        failed = [
            f"{j.condition.text} {j.outcome.value}: {j.why}"
            for j in judgements
            if j.outcome is not Outcome.PASSED
        ]
        failed += [] if conditions else _what_is_slower(found)
        if failed:
            tables = as_markdown(diff_sections(found, 10, judgements))
            raise AssertionError("\n".join([*failed, "", tables]))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the recordings to a folder, as a baseline; replaces existing ones."""
        for number, trace in enumerate(self.recordings, start=1):
            trace.save(Path(folder) / f"recording-{number}.opscope")


def _what_is_slower(found: Diff) -> list[str]:
    if found.step is None:
        return [f"times cannot be compared: {'; '.join(found.not_judged)}"]
    slower = [
        one
        for one in (found.step, *found.times)
        if one.verdict is TimeVerdict.SLOWER and one.change_ns > 2 * one.moved_ns
    ]
    return [
        f"{' '.join(filter(None, (one.level.value, one.name)))} is slower by {one.relative:.1%}"
        for one in slower
    ]


def _in_folder(folder: Path) -> list[Path]:
    """Recordings of a baseline."""
    found = sorted(folder.glob("*.opscope"))
    if not found:
        raise UsageError(
            f"There is no baseline in {folder}. Write it with pytest --opscope-save-baselines, on "
            "the version to compare with."
        )
    return found


def _record_in_turns(functions: Sequence[Profiled]) -> None:
    """Make all missing recordings."""
    for number in range(max(one.count for one in functions)):
        for one in functions:
            if len(one.traces) <= number < one.count:
                with _held(one.profiler.lock):
                    one.traces.append(_record(one))


def _record(one: Profiled) -> opscope.Trace:
    unrecorded = max(one.warm_up, 1)
    schedule = opscope.schedule(wait=0, warmup=unrecorded, active=one.steps, repeat=1)
    with opscope.profile(schedule=schedule, **one.options) as recording:
        for number in range(-unrecorded, one.steps):
            if number >= -one.warm_up:
                one.step()
            recording.step()
    return recording.trace


@contextlib.contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Let one process at a time use the file."""
    try:
        import fcntl
    except ImportError:  # a system without such locks: recordings may be slower
        yield
        return
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
