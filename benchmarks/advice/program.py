"""What a program of this benchmark is: a planted fault and its fix, or one without a fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

Body = Callable[[], object]
Variants = tuple[Body, Body]

MARK = "# fault"
"""At the end of the line that has the fault; where more than one is right, at each."""


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        name: of the function that makes it.
        findings: ids that name its fault; empty for one that is well tuned.
        make: sets up what the program works on, and returns it with its fault and without. Both run
            for 0.1 to 3 s.
        grows: the fault costs memory; time only in passing.
    """

    name: str
    findings: tuple[str, ...]
    make: Callable[[], Variants]
    grows: bool = False

    @property
    def file(self) -> str:
        """Where it is written."""
        return str(inspect.getsourcefile(self.make))

    @property
    def lines(self) -> tuple[int, ...]:
        """Numbers of the lines that have the fault."""
        texts, first = inspect.getsourcelines(self.make)
        return tuple(first + i for i, text in enumerate(texts) if text.rstrip().endswith(MARK))


PROGRAMS: dict[str, Program] = {}
"""All of them by name; the modules of programs add theirs when they are imported."""


def planted(*findings: str, grows: bool = False) -> Callable[[Callable[[], Variants]], Program]:
    """Declare a program whose fault any of ``findings`` names."""

    def declare(make: Callable[[], Variants]) -> Program:
        program = Program(make.__name__, findings, make, grows)
        if PROGRAMS.setdefault(program.name, program) is not program:
            raise ValueError(f"Two programs are called {program.name}: give one another name.")
        return program

    return declare


def tuned(make: Callable[[], Body]) -> Program:
    """Declare a program that does what it should."""

    def both() -> Variants:
        body = make()
        return body, body

    both.__name__ = make.__name__
    return planted()(both)
