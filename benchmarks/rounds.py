"""Rounds: every variant once, then every variant again, so that a slow minute affects all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rich.progress import Progress

from benchmarks.isolation import in_fork

Name = TypeVar("Name")
Result = TypeVar("Result")


class Rounds:
    """Number of repetitions, and the progress bar.

    Attributes:
        count: rounds of each measurement.
        few: rounds of measurements that take long and vary little.
        share: of each workload's units to run.
    """

    def __init__(self, count: int, share: float, progress: Progress) -> None:
        self.count = count
        self.few = min(count, 3)
        self.share = share
        self._progress = progress

    def in_forks(
        self,
        title: str,
        names: Iterable[Name],
        function: Callable[..., Result],
        *arguments: Any,
        count: int | None = None,
    ) -> dict[Name, list[Result]]:
        """``function(name, *arguments)`` in a fork of its own, in turns: A B C, A B C, ...

        Returns:
            The results of each name, one per round.
        """

        def call(name: Name) -> Result:
            return in_fork(function, name, *arguments)

        return self.interleave(title, names, call, count)

    def interleave(
        self,
        title: str,
        names: Iterable[Name],
        measure: Callable[[Name], Result],
        count: int | None = None,
    ) -> dict[Name, list[Result]]:
        """The same for functions that start their own process."""
        rounds = count or self.count
        results: dict[Name, list[Result]] = {name: [] for name in names}
        task = self._progress.add_task(title, total=rounds * len(results))
        for _ in range(rounds):
            for name, measured in results.items():
                measured.append(measure(name))
                self._progress.advance(task)
        self._progress.remove_task(task)
        return results
