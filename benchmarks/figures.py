"""A figure: what was measured for both, how they compare, and whether the target is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One row of the result.

    Attributes:
        name: what was measured.
        workload: of what.
        unit: of both sides.
        opscope: one value per round.
        other: one value per round of what it is compared with, in the same rounds.
        compared_with: what ``other`` is.
        target: the largest ratio that is good enough; None where there is none.
        limit: the largest value of opscope's own that is good enough; None where there is none.
        floor: one value per round of what nothing can go below: an empty callback instead of
            opscope. Empty where there is no such thing.
    """

    name: str
    workload: str
    unit: str
    opscope: Sequence[float]
    other: Sequence[float]
    compared_with: str = "torch.profiler"
    target: float | None = None
    limit: float | None = None
    floor: Sequence[float] = ()

    @property
    def ratios(self) -> list[float]:
        """opscope's value over the other, round by round."""
        pairs = zip(self.opscope, self.other, strict=True)
        return [ours / theirs for ours, theirs in pairs if theirs > 0]

    @property
    def floor_ratio(self) -> float | None:
        """The median ratio of the floor to the other; None where there is no floor."""
        pairs = zip(self.floor, self.other, strict=False)
        ratios = [floor / theirs for floor, theirs in pairs if theirs > 0]
        return median(ratios) if ratios else None

    @property
    def ratio(self) -> float | None:
        """The median ratio; None where nothing was compared."""
        return median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether all targets are met; None if there are none."""
        checks = []
        if self.target is not None and self.ratio is not None:
            checks.append(self.ratio <= self.target)
        if self.limit is not None:
            checks.append(median(self.opscope) <= self.limit)
        return all(checks) if checks else None

    def as_dict(self) -> dict[str, object]:
        """Everything, also what follows from the rest, for JSON."""
        ratio = None if self.ratio is None else round(self.ratio, 5)
        floor = None if self.floor_ratio is None else round(self.floor_ratio, 5)
        return {**asdict(self), "ratio": ratio, "floor_ratio": floor, "met": self.met}

    @classmethod
    def of_dict(cls, saved: Mapping[str, Any]) -> Figure:
        """That which :meth:`as_dict` gave."""
        return cls(**{field.name: saved[field.name] for field in fields(cls)})


def median_of(values: Sequence[float]) -> float:
    """The median, or 0 of nothing."""
    return median(values) if values else 0.0
