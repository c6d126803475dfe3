"""What a program knows of when things happened: windows, moments, and deeds between moments.

A moment is the state of every window at once, copied in one step. Windows only move forward, so
two moments say of whatever lies between them whether a window was surely open, or possibly.
Nothing here takes a lock: deeds are also written down by signal handlers and finalizers, in the
middle of anything.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

Moment = bytes
Effect = tuple[str, object]
"""What a recording shows of a deed: its category and its name or size, see ``expectations.py``."""

MOST_WINDOWS = 200


class State(IntEnum):
    """Of a window. It only grows."""

    ABSENT, OPENING, OPEN, CLOSING, OVER = range(5)


class Deed:
    """Something that ``actor`` did once, between ``before`` and ``after``; None: it never ended.

    It is ``hidden`` if opscope called it: its Python calls are left out then.

    ``effects`` are of windows that it lies in. ``calls`` go on from ``begun`` to ``ending``,
    which the called function writes down itself, and are also of windows that open or close
    meanwhile. Of a deed that an interruption ``cut``, nobody knows how far it came. It shows only
    where what it ``needs`` does.
    """

    __slots__ = (
        "actor",
        "after",
        "before",
        "begun",
        "calls",
        "cut",
        "effects",
        "ending",
        "hidden",
        "needs",
    )

    def __init__(
        self,
        actor: Actor,
        before: Moment,
        effects: Iterable[Effect] = (),
        calls: Iterable[Effect] = (),
        needs: tuple[Deed, ...] = (),
    ) -> None:
        self.actor, self.before, self.hidden = actor, before, actor.hidden
        self.effects, self.calls, self.needs = Counter(effects), Counter(calls), needs
        self.begun: Moment | None = None
        self.ending: Moment | None = None
        self.after: Moment | None = None
        self.cut = False

    def surely_in(self, window: int) -> bool:
        """The window was open all the while."""
        if self.after is None or self.cut:
            return False
        return self.before[window] == State.OPEN == self.after[window]

    def possibly_in(self, window: int) -> bool:
        """The window was, or may have been, open for some of it."""
        existed = self.after is None or self.after[window] > State.ABSENT
        return existed and self.before[window] < State.OVER

    def surely_running_in(self, window: int) -> bool:
        """The window was open at a moment between ``begun`` and ``ending``."""
        if self.begun is None or self.ending is None:
            return False
        return self.begun[window] <= State.OPEN <= self.ending[window]


class Actor:
    """A thread, and what it did; only a ``counted`` one knows all of it.

    A ``raw`` one was begun without the threading module.
    """

    def __init__(self, number: int, counted: bool, raw: bool) -> None:
        self.number, self.counted, self.raw = number, counted, raw
        self.native_id = 0
        self.born: Moment | None = None
        self.deeds: list[Deed] = []
        self.depth = 0  # of deeds that passed the gate, see gate.py
        self.hidden = False  # whether opscope called what runs, whose Python calls it leaves out


class History:
    """Everything that is known of one program."""

    def __init__(self, first_actor: int) -> None:
        self.states = bytearray(MOST_WINDOWS)
        self.windows: list[Any] = []
        self.actors: list[Actor] = []
        self.errors: list[str] = []
        self.owners: dict[int, Actor] = {}  # of sizes, whose tensors no other thread uses
        self._here = threading.local()
        self._actor_numbers, self._window_numbers = itertools.count(first_actor), itertools.count()
        self._sizes = itertools.count(1009)

    def now(self) -> Moment:
        """The state of every window."""
        return bytes(self.states)

    def new_actor(self, *, counted: bool = True, raw: bool = False) -> Actor:
        """An actor for a thread that is about to begin."""
        actor = Actor(next(self._actor_numbers), counted, raw)
        self.actors.append(actor)
        return actor

    def begin(self, actor: Actor) -> None:
        """This thread is ``actor`` from now on."""
        actor.native_id = threading.get_native_id()
        actor.born = self.now()
        self._here.actor = actor

    @property
    def actor(self) -> Actor:
        """Who this thread is."""
        return self._here.actor

    def new_size(self) -> int:
        """A number of elements that no other tensor of the program has."""
        size = next(self._sizes)
        self.owners[size] = self.actor
        return size

    def new_window(self) -> int:
        """The number of a window that is about to open."""
        number = next(self._window_numbers)
        self.states[number] = State.OPENING
        return number
