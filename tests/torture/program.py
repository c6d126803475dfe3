"""One random program: what its threads share, and how they do what is counted."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import opscope
from torture.effects import Effects
from torture.gate import Gate
from torture.history import Actor, Deed, Effect, History
from torture.primitives import PRIMITIVES

T = TypeVar("T")
_FOLDER = str(Path(opscope.__file__).parent)
FEWEST_ACTS, MOST_ACTS, MOST_ACTORS = 8, 22, 14


class Death(Exception):
    """Ends a thread in the middle of what it does."""


class Interruption(BaseException):
    """Raised by a signal handler, anywhere."""


@dataclass
class Settings:
    """What a program is made from.

    Attributes:
        seed: decides the program; the machine decides how its threads are interleaved.
        effects: of the primitives.
        without: acts and expectations that are left out, see ``left_out.py``.
        first_actor: number of the first thread.
    """

    seed: int
    effects: Effects
    without: frozenset[str] = frozenset()
    first_actor: int = 0


@dataclass
class Shared:
    """What passes from thread to thread."""

    spans: list[Any] = field(default_factory=list)  # entered, for whoever comes by to leave
    kept: list[Any] = field(default_factory=list)  # tensors, for whoever comes by to let go of
    windows: list[Any] = field(default_factory=list)  # for whoever comes by to stop
    knots: list[Any] = field(default_factory=list)  # garbage, for whoever comes by to collect
    tying: Any = field(default_factory=threading.RLock)  # while one is tied, or all are untied


def _is_in_opscope(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_FOLDER):
            return True
        frame = frame.f_back
    return False


class Program:
    """What threads do, and what is known of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.random = random.Random(settings.seed)
        self.history = History(settings.first_actor)
        self.gate, self.shared = Gate(), Shared()
        racing = "racing windows" not in settings.without
        self.one_by_one = None if racing else threading.RLock()  # while windows open and close
        self.threads: list[threading.Thread] = []
        self.waits: list[Callable[[], object]] = []  # for threads that no object stands for

    def begin(
        self,
        effects: Iterable[Effect] = (),
        calls: Iterable[Effect] = (),
        *,
        needs: tuple[Deed, ...] = (),
    ) -> Deed:
        """Something that begins now; its ``after`` is for the caller to set."""
        actor = self.history.actor
        deed = Deed(actor, self.history.now(), effects, calls, needs)
        actor.deeds.append(deed)
        return deed

    def do(
        self,
        work: Callable[[], T],
        effects: Iterable[Effect] = (),
        calls: Iterable[Effect] = (),
        *,
        needs: tuple[Deed, ...] = (),
    ) -> T:
        """Run ``work``, of which a recording shows ``effects``."""
        with self.gate.together(self.history.actor):
            return self._finish(self.begin(effects, calls, needs=needs), work)

    def do_elsewhere(self, work: Callable[[], object], effects: Iterable[Effect]) -> None:
        """The same where torch puts some of it on threads of its own.

        A thread that is not counted begins it, and only ``effects`` are compared, over all threads.
        """
        actor = self.history.new_actor(counted=False)
        actor.depth = self.history.actor.depth

        def body() -> None:
            self.do(work, effects)

        thread = threading.Thread(target=self.as_actor, args=(actor, body))
        thread.start()
        thread.join()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function made by ``own_functions.py``, which writes down when it runs.

        The call is no deed that holds the gate: windows may open and close during it.
        """
        deed = self.begin(calls=[("python", function.__name__)])
        return self._finish(deed, lambda: function(deed, self.history.now, *arguments))

    def _finish(self, deed: Deed, work: Callable[[], T]) -> T:
        try:
            return work()
        except Interruption:
            deed.cut = True
            raise
        finally:
            deed.after = self.history.now()

    @contextlib.contextmanager
    def passing(self, together: bool) -> Iterator[None]:
        """While a window opens or closes: alone, unless ``together`` with what others do."""
        with contextlib.ExitStack() as stack:
            if not together:
                stack.enter_context(self.gate.alone(self.history.actor))
            if self.one_by_one is not None:
                stack.enter_context(self.one_by_one)
            yield

    def run_primitive(self, name: str) -> None:
        """Run one of ``primitives.py``."""
        size = self.history.new_size()
        primitive = PRIMITIVES[name]
        perhaps = [("module", module) for module in primitive.unsure]

        def work() -> None:  # and let go of what it returns
            primitive.run(size)

        self.do(work, self.settings.effects.of(name, size).elements(), perhaps)

    @contextlib.contextmanager
    def called_from_anywhere(self) -> Iterator[None]:
        """For handlers and finalizers: perhaps something of opscope is running below."""
        actor = self.history.actor
        before, actor.hidden = actor.hidden, actor.hidden or _is_in_opscope(sys._getframe())
        try:
            yield
        finally:
            actor.hidden = before

    def start_thread(self, body: Callable[[], None], *, gated: bool = True) -> threading.Thread:
        """A thread that is an actor, begins now and is waited for at the end."""
        actor = self.history.new_actor()
        actor.depth = 0 if gated else 1
        thread = threading.Thread(target=self.as_actor, args=(actor, body))
        self.threads.append(thread)
        thread.start()
        return thread

    def as_actor(self, actor: Actor, body: Callable[[], None]) -> None:
        """Run ``body`` on this thread; what it raises is a failure, unless it is its death."""
        self.history.begin(actor)
        try:
            with contextlib.suppress(Death):
                body()
        except BaseException:
            self.history.errors.append(traceback.format_exc())
