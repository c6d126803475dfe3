"""Result of a comparison of two versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import isfinite
from typing import Any

from opscope.analysis.diff.places import CallPlace
from opscope.analysis.diff.step_costs import PerStep
from opscope.base.shown_result import ShownResult


class Level(str, Enum):
    """Granularity of time: the step, or one or all of the properties of places."""

    STEP = "step"
    PHASE = "phase"
    MODULE = "module"
    OPERATOR = "operator"
    LINE = "line"
    CALL = "call"


class TimeVerdict(str, Enum):
    """Statistical verdict on a change of time."""

    SLOWER = "slower"
    FASTER = "faster"
    NO_DIFFERENCE = "no difference found"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class TimeChange:
    """A time of a typical step on both sides, nanoseconds.

    Attributes:
        level: kind of place: step, module, operator, line and so on.
        place: the place; only the fields of its level are set.
        a_ns: time on the first side.
        b_ns: time on the second side.
        change_ns: additional time on the second side; for a place, without the part that all
            places have in common.
        margin_ns: half of the 95 % confidence interval of ``change_ns``.
        p_value: probability of this difference if nothing changed.
        verdict: the result, corrected for the number of comparisons.
        moved_ns: part of the change that other places compensate.
    """

    level: Level
    place: CallPlace
    a_ns: float
    b_ns: float
    change_ns: float
    margin_ns: float
    p_value: float
    verdict: TimeVerdict
    moved_ns: float = 0.0

    @property
    def name(self) -> str:
        """Name of the place, or "step"."""
        return place_text(self.place) if self.level is not Level.STEP else "step"

    @property
    def is_changed(self) -> bool:
        """Whether the change is significant."""
        return self.verdict in (TimeVerdict.SLOWER, TimeVerdict.FASTER)

    @property
    def relative(self) -> float:
        """The change as a share of the first side's time."""
        return self.change_ns / self.a_ns if self.a_ns else float("inf") * (self.change_ns > 0)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        margin = self.margin_ns if isfinite(self.margin_ns) else None
        return {**_as_dict(self), "margin_ns": margin}


class Quantity(str, Enum):
    """Counted quantity."""

    CALLS = "calls"
    BYTES = "bytes"


@dataclass(frozen=True)
class CountChange:
    """A changed number of calls or bytes per step.

    Attributes:
        quantity: calls or bytes.
        place: the place.
        a: number in steps of the first side; None if there were none.
        b: number in steps of the second side.
    """

    quantity: Quantity
    place: CallPlace
    a: PerStep | None
    b: PerStep | None

    @property
    def name(self) -> str:
        """Name of the place."""
        return place_text(self.place)

    @property
    def change(self) -> float:
        """Difference per step."""
        return (self.b.mean if self.b else 0.0) - (self.a.mean if self.a else 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return _as_dict(self)


@dataclass(frozen=True)
class ShapeChange:
    """Calls whose shapes changed.

    Attributes:
        place: the place, without shapes.
        a: shapes that only the first side has.
        b: shapes that only the second side has.
    """

    place: CallPlace
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the place."""
        return place_text(self.place)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return _as_dict(self)


@dataclass(frozen=True)
class PeakChange:
    """Peak memory of a device in the steady state.

    Attributes:
        device: the device.
        a_bytes: minimum and maximum over the first side's recordings.
        b_bytes: minimum and maximum over the second side's recordings.
    """

    device: str
    a_bytes: tuple[int, int]
    b_bytes: tuple[int, int]

    @property
    def is_changed(self) -> bool:
        """Whether the ranges of both sides do not overlap."""
        return self.a_bytes[1] < self.b_bytes[0] or self.b_bytes[1] < self.a_bytes[0]


@dataclass(frozen=True)
class Compared:
    """Contents of one side."""

    names: tuple[str, ...]  # names of its recordings
    steps: int  # steps of the steady state, in all recordings
    typical: int  # number of them that times are means over


@dataclass(frozen=True)
class TimesCompared:
    """Differences of times; see ``Diff`` for the fields."""

    step: TimeChange | None = None
    mean_step: TimeChange | None = None
    places_ns: float = 0.0
    places_margin_ns: float = 0.0
    alike_ns: float = 0.0
    times: tuple[TimeChange, ...] = ()
    whole_modules: tuple[TimeChange, ...] = ()


@dataclass(frozen=True)
class CountsCompared:
    """Differences of exact numbers; see ``Diff`` for the fields."""

    counts: tuple[CountChange, ...]
    counts_left_out: int
    shapes: tuple[ShapeChange, ...]
    memory: tuple[PeakChange, ...]


@dataclass(frozen=True, kw_only=True)
class Diff(TimesCompared, CountsCompared, ShownResult):
    """Differences of the second side (the new version) from the first (the old version).

    Attributes:
        a: the first side.
        b: the second side.
        step: change of a step that no other program disturbs; of the mean step, if only that
            changed, or the sides do not have the same number of recordings, 3 or more. None if a
            side has no steps.
        mean_step: change of the mean step: the sum of ``places_ns``, ``alike_ns`` and
            ``interruptions_ns``. None without steps.
        places_ns: part of this change at single places: the sum of their changes.
        places_margin_ns: half of the 95 % confidence interval of ``places_ns``.
        alike_ns: part that all places have in common, for example because of a slower machine.
        times: changes of places with a relevant share, at all levels; largest change first.
        whole_modules: changes of modules with submodules, including these; ``times`` has modules
            without their submodules.
        counts: changed numbers of calls and bytes per step.
        counts_left_out: places whose bytes vary from step to step and were not compared.
        shapes: changed shapes of arguments.
        memory: peak memory by device.
        start_up: change of the start-up time; None if it is unknown.
        not_judged: why times were not compared; empty if they were.
        not_counted: why ``count``, ``bytes`` or ``shapes`` were not compared, by these keys.
        not_recorded: kinds of data that neither side has.
        notes: further remarks.
    """

    a: Compared
    b: Compared
    start_up: TimeChange | None
    not_judged: tuple[str, ...]
    not_counted: Mapping[str, str]
    not_recorded: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def interruptions_ns(self) -> float:
        """The rest of the mean step's change: extra time of single steps."""
        parts = self.places_ns + self.alike_ns
        return self.mean_step.change_ns - parts if self.mean_step else 0.0

    def changed(self, level: Level | str) -> tuple[TimeChange, ...]:
        """Significant changes at a level, largest first."""
        return tuple(one for one in self.times if one.level is Level(level) and one.is_changed)

    @property
    def is_changed(self) -> bool:
        """Whether any difference is significant."""
        exact = self.counts or self.shapes or any(one.is_changed for one in self.memory)
        step = self.step is not None and self.step.is_changed
        return bool(exact) or step or any(one.is_changed for one in self.times)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON; times in nanoseconds per step."""
        return {
            "a": asdict(self.a),
            "b": asdict(self.b),
            "step": self.step and self.step.as_dict(),
            "mean_step": self.mean_step and self.mean_step.as_dict(),
            "places_ns": self.places_ns,
            "places_margin_ns": self.places_margin_ns,
            "alike_ns": self.alike_ns,
            "interruptions_ns": self.interruptions_ns,
            "times": [one.as_dict() for one in self.times],
            "whole_modules": [one.as_dict() for one in self.whole_modules],
            "counts": [one.as_dict() for one in self.counts],
            "counts_left_out": self.counts_left_out,
            "shapes": [one.as_dict() for one in self.shapes],
            "memory": [{**asdict(one), "is_changed": one.is_changed} for one in self.memory],
            "start_up": self.start_up and self.start_up.as_dict(),
            "not_judged": list(self.not_judged),
            "not_counted": dict(self.not_counted),
            "not_recorded": list(self.not_recorded),
            "notes": list(self.notes),
        }


def _as_dict(one: TimeChange | CountChange | ShapeChange) -> dict[str, Any]:
    """Fields, with the place's fields and its name."""
    return {**asdict(one), "place": one.place._asdict(), "name": one.name}


def place_text(place: CallPlace) -> str:
    """Name of a place: ``aten::mm in blocks.3.mlp, backward``."""
    text = place.operator
    if place.module:
        text = f"{text} in {place.module}" if text else place.module
    if place.shapes:
        text += f" of {place.shapes}"
    if place.phase:
        text = f"{text}, {place.phase}" if text else place.phase
    if place.line:
        text = f"{text}, at {place.line}" if text else place.line
    return f"{text}, on another thread" if place.beside else text
