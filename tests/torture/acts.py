"""What a thread may do next: acts by name, how likely each is, and which can be left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from torture.history import Deed
from torture.own_functions import make_functions
from torture.primitives import PRIMITIVES
from torture.program import Death, Program

Act = Callable[["Player"], None]
ACTS: dict[str, tuple[int, Act]] = {}
"""Weight and function; the modules that are imported by ``case.py`` add theirs."""

DEEPEST = 4


def act(weight: int) -> Callable[[Act], Act]:
    """Add a function to what threads do."""

    def add(function: Act) -> Act:
        ACTS[function.__name__.replace("_", " ")] = weight, function
        return function

    return add


class Player:
    """A thread's part in a program: its own random choices, and what it has at hand."""

    def __init__(self, program: Program, seed: str) -> None:
        self.program = program
        self.actor = program.history.actor
        self.random = random.Random(seed)
        self.depth = 0
        self.own = make_functions(self.actor.number)
        self.left_open: list[Any] = []
        self.generators: list[Any] = []
        self.primitives = sorted(PRIMITIVES)

    def play(self, acts: int) -> None:
        """Do so many acts, each in a function of its own."""
        try:
            for _ in range(acts):
                self.program.call(self.own["call"], self.act)
        finally:
            while self.generators:
                generator, turn = self.generators.pop()
                self.take_turn(turn, generator.close)

    def act(self) -> None:
        """Do something."""
        if self.random.random() < 0.004:
            raise Death
        if self.depth >= DEEPEST:
            self.operate()
            return
        names = [name for name, (weight, _) in ACTS.items() if weight]
        weights = [ACTS[name][0] for name in names]
        self.depth += 1
        try:
            ACTS[self.random.choices(names, weights)[0]][1](self)
        finally:
            self.depth -= 1

    def some_acts(self, most: int = 3) -> None:
        """Do a few things, perhaps none."""
        for _ in range(self.random.randrange(most + 1)):
            self.act()

    def operate(self) -> None:
        """Run one primitive."""
        self.program.run_primitive(self.random.choice(self.primitives))

    def take_turn(self, turn: list[Deed], resume: Callable[[], object]) -> None:
        """Let a generator run until it yields: one call, if it runs at all."""
        deed = self.program.begin(calls=[("python", self.own["generator"].__name__)])
        turn[:] = [deed]
        try:
            resume()
        finally:
            deed.after = self.program.history.now()

    def name(self, what: str) -> str:
        """For an annotation of this thread."""
        return f"w{self.actor.number} {what}"


def heard(player: Player) -> Deed:
    """Run an operator: of threads without, torch tells neither frees nor fast annotations."""
    player.program.run_primitive("makes")
    return player.actor.deeds[-1]


@act(10)
def run_primitives(player: Player) -> None:
    for _ in range(player.random.randrange(1, 4)):
        player.operate()
