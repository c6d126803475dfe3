"""The contract of a trigger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opscope import _native


@dataclass(frozen=True)
class Watched:
    """What a trigger has of the recorder that it belongs to.

    Attributes:
        dump: asks for a dump and returns at once; takes what happened, in words. From any thread.
        watch: the recorder's native thread.
        steps: of the program.
        dump_if: as ``dump``, but first it is asked whether it is worth it after all, which has to
            be said within two seconds.
    """

    dump: Callable[[str], None]
    watch: _native.Watch
    steps: _native.StepCounter
    dump_if: Callable[[str, Callable[[], bool]], None]


class Trigger:
    """Something that makes a dump worth having; the base class never does.

    One trigger belongs to one recorder at a time. What ``settings`` and ``begin`` raise is raised
    by the recorder's ``start``, which then leaves everything as it was. What ``look`` raises stops
    neither the recorder nor the program, and is counted; what ``end`` raises is passed over.
    """

    name = ""
    """What dumps say of it, and part of their folder's name."""
    every_s: float | None = None
    """How often :meth:`look` is called; None: never."""
    news = ""
    """What the native watch calls what this waits for, if that is what sees it."""

    def settings(self) -> dict[str, int | bool]:
        """Arguments of the native watch."""
        return {}

    def begin(self, watched: Watched) -> None:
        """The recorder starts: set up what is needed to notice."""

    def end(self) -> None:
        """The recorder stops: leave everything as it was. May be called without ``begin``."""

    def look(self) -> str | None:
        """What is worth a dump at this moment, in words. Called on a thread of its own."""
        return None
