"""Recordings that start and stop in any thread, nested and overlapping, with random options."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import opscope
from torture.history import MOST_WINDOWS, State
from torture.program import Program

if TYPE_CHECKING:
    from torture.acts import Player

OPTIONS = (
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_modules",
    "record_outputs",
    "with_flops",
    "with_functions",
    "with_own_functions",
)
MOST_OPENED = MOST_WINDOWS // 4  # schedules and handlers have the rest


class Window:
    """A recording: what it asked for, and what it is compared with.

    In parts, between which it paused; ``numbers`` are those of the history's windows.
    """

    def __init__(self, program: Program, profile: Any, options: dict[str, bool]) -> None:
        self.program, self.history = program, program.history
        self.profile = profile
        self.options = options
        self.actor = program.history.actor
        self.all_threads = options.get("all_threads", True)
        self.is_torchs = False  # which lists no collections, nor Python calls of later threads
        self.numbers: list[int] = []
        self.began_ns = self.ended_ns = 0
        self.trace: Any = None
        self.may_be_nothing = False  # whether it may never have opened
        self.is_paused = False

    @property
    def number(self) -> int:
        """Of the last part."""
        return self.numbers[-1]

    @property
    def is_over(self) -> bool:
        """Whether it closed, and not only its last part."""
        return self.history.states[self.number] == State.OVER and not self.is_paused

    def opening(self) -> None:
        """It is about to open."""
        self.began_ns = time.time_ns()
        self.next_part()
        self.history.windows.append(self)

    def next_part(self) -> None:
        """It is about to go on."""
        self.numbers.append(self.history.new_window())

    def set(self, state: State) -> None:
        """It has come so far."""
        self.history.states[self.number] = state
        if state == State.OVER:
            self.ended_ns = time.time_ns()

    def start(self, *, together: bool = False) -> None:
        """Open it; ``together`` with what other threads do."""
        with self.program.passing(together):
            self.opening()
            self.may_be_nothing = True  # a signal that the handler of another runs in may end it
            self.profile.start()
            self.may_be_nothing = False
            self.set(State.OPEN)

    def stop(self, *, together: bool = False) -> None:
        """Close it."""
        with self.program.passing(together):
            self.set(State.CLOSING)
            self.profile.stop()
            self.set(State.OVER)

    def look(self) -> Any:
        """The trace, always the same; None if an interruption let it have none."""
        if self.trace is None:
            try:
                self.trace = self.profile.trace
            except opscope.LifecycleError as error:
                assert self.may_be_nothing, f"window {self.number}, {self.options}: {error}"
        return self.trace


def choose_options(choices: random.Random) -> dict[str, bool]:
    """Options of ``opscope.profile``."""
    likely = choices.choice((0.15, 0.5, 0.85))
    options = {option: choices.random() < likely for option in OPTIONS}
    return {**options, "all_threads": choices.random() < 0.85}


def open_window(player: Player) -> Window | None:
    """A new window that has started; None if there were enough."""
    program = player.program
    if len(program.history.windows) >= MOST_OPENED:
        return None
    options = choose_options(player.random)
    window = Window(program, opscope.profile(**options), options)
    window.start(together=player.random.random() < 0.25)
    return window


def record_some(player: Player) -> None:
    """Record what comes next; stopped here, or by whoever comes by."""
    window = open_window(player)
    if window is None:
        return
    try:
        player.some_acts(5)
    finally:
        if player.random.random() < 0.3:
            player.program.shared.windows.append(window)
        else:
            finish(player, window)


def stop_somebodys(player: Player) -> None:
    """Stop a window that another thread, or this one earlier, left open."""
    try:
        window = player.program.shared.windows.pop(player.random.randrange(4))
    except IndexError:
        return
    finish(player, window)


def finish(player: Player, window: Window) -> None:
    """Stop it, and perhaps look at it."""
    window.stop(together=player.random.random() < 0.25)
    if player.random.random() < 0.5:
        window.look()


def finish_all(program: Program) -> None:
    """Stop what nobody stopped."""
    for window in program.history.windows:
        if not window.is_over:
            window.stop()
