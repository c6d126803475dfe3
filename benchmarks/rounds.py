"""Rounds: every variant once, then every variant again, so that a slow minute hits them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from rich.progress import Progress

Variant = TypeVar("Variant")
Result = TypeVar("Result")


class Rounds:
    """How often to repeat, and where to say how far it is.

    Attributes:
        count: rounds of each measurement.
        few: rounds of one that takes long and varies little.
        share: of each workload's units to run.
    """

    def __init__(self, count: int, share: float, progress: Progress) -> None:
        self.count = count
        self.few = min(count, 3)
        self.share = share
        self._progress = progress

    def interleave(
        self, title: str, variants: Mapping[Variant, Callable[[], Result]], count: int | None = None
    ) -> dict[Variant, list[Result]]:
        """Measure A B C, A B C, ...; the results of each variant, one per round."""
        rounds = count or self.count
        task = self._progress.add_task(title, total=rounds * len(variants))
        results: dict[Variant, list[Result]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, measure in variants.items():
                results[name].append(measure())
                self._progress.advance(task)
        self._progress.remove_task(task)
        return results
