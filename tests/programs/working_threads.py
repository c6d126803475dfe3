"""Threads that begin and end before, during and after a recording, each with a model of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import torch

import opscope

PATIENCE_S = 60  # Only ever waited for in full when something is broken.


class Life(Enum):
    """When a thread begins and ends, seen from the recording."""

    STAYS = (False, False)
    ENDS = (False, True)
    BEGINS = (True, False)
    PASSES = (True, True)

    @property
    def begins(self) -> bool:
        return self.value[0]

    @property
    def ends(self) -> bool:
        return self.value[1]


class Worker(threading.Thread):
    """A thread that does its crew's work and then waits until it is let go."""

    def __init__(self, crew: Crew, life: Life, number: int) -> None:
        super().__init__(name=f"worker {number}", daemon=True)
        self.crew, self.life, self.leave = crew, life, threading.Event()

    def run(self) -> None:
        self.crew.work(self.leave)

    def dismiss(self) -> None:
        """Let it go, and wait until it has."""
        self.leave.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Crew:
    """Workers of given lives, all in the same place when recording begins and when it ends."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.begin, self.arrived = threading.Event(), threading.Semaphore(0)
        self.workers = [Worker(self, life, number) for number, life in enumerate(lives)]
        # torch calls modules by the name of what was at their address first: none may be reused.
        self.models: list[torch.nn.Module] = []

    def work(self, leave: threading.Event) -> None:
        def waits_to_begin() -> None:
            self.arrived.release()
            assert self.begin.wait(PATIENCE_S)

        def runs_meanwhile() -> None:
            with opscope.record_function("forward"):
                model(torch.rand(2, 4))

        def waits_to_leave() -> None:
            self.arrived.release()
            leave.wait(PATIENCE_S)

        waits_to_begin()
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.models.append(model)
        runs_meanwhile()
        waits_to_leave()

    def start(self, *lives: Life) -> None:
        """Start the workers of these lives; returns when all wait to begin."""
        self._await(sum(self._start(worker) for worker in self.workers if worker.life in lives))

    def run(self, works_here: bool) -> None:
        """Let all work at once, this thread too if asked; returns when all wait to leave."""
        self.begin.set()
        if works_here:
            free = threading.Event()
            free.set()
            self.work(free)
            self._await(2)
        self._await(len(self.workers))

    def dismiss(self, *lives: Life) -> None:
        """Let the workers of these lives end, and wait until they have."""
        for worker in self.workers:
            if worker.life in lives:
                worker.dismiss()

    @staticmethod
    def _start(worker: Worker) -> bool:
        worker.start()
        return True

    def _await(self, arrivals: int) -> None:
        for _ in range(arrivals):
            assert self.arrived.acquire(timeout=PATIENCE_S)


@contextmanager
def crew_of(lives: Sequence[Life]) -> Iterator[Crew]:
    """A crew of which nobody is left afterwards, whatever happens."""
    crew = Crew(lives)
    try:
        yield crew
    finally:
        crew.begin.set()
        for worker in crew.workers:
            if worker.ident is not None:
                worker.dismiss()
