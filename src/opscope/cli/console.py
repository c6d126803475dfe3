"""What opscope itself says: on standard error, so that a program's own output stays as it is."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

WIDTH_OF_FILES = 160
"""Columns of a table that goes to a pipe or file, unless COLUMNS says otherwise."""


def console_for(stream: TextIO) -> Console:
    """A console that writes to ``stream`` and to no other, as wide as whatever reads it."""
    is_terminal = stream is not None and stream.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES
    # Without ``stderr`` a stream of None, which Python has when there is none, would mean stdout.
    return Console(file=stream, stderr=stream is sys.stderr, highlight=False, width=width)


class Messages:
    """Writes lines to standard error as it was when this object was made.

    The stream is kept because a profiled program may replace ``sys.stderr``. One that can no
    longer be written to (closed, or a terminal that went away) is not an error: there is nobody
    left to read it.
    """

    def __init__(self, *, animated: bool = True) -> None:
        """``animated`` is for progress: a bar, which needs a thread of its own to redraw it.

        ``opscope run`` writes its files at interpreter shutdown, when Python no longer starts
        threads; there, progress is one line that stands still.
        """
        self._console = console_for(sys.stderr)
        self._animated = animated

    @property
    def width(self) -> int:
        """Characters in a line."""
        return self._console.width

    def say(self, text: str) -> None:
        """One paragraph; lines are never wrapped, so that paths can be copied."""
        self._print(Text.assemble(("opscope: ", "bold cyan"), text))

    def fail(self, text: str) -> None:
        """One paragraph about what went wrong and what to do."""
        self._print(Text.assemble(("opscope: ", "bold red"), text))

    def show(self, what: RenderableType) -> None:
        """Something rich lays out, such as a table."""
        with contextlib.suppress(OSError, ValueError):
            self._console.print(what)

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[None]:
        """Show that ``what`` is going on for as long as it does; nothing outside a terminal."""
        if not self._console.is_terminal:
            yield
        elif self._animated:
            # How much there is to do is not known beforehand, so the bar only moves.
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            with Progress(*columns, console=self._console, transient=True) as bar:
                bar.add_task(escape(what), total=None)
                yield
        else:
            self._print(Text(f"opscope: {what} ...", style="dim"), end="\r")
            try:
                yield
            finally:
                self._print(Text(" " * (len(what) + 13)), end="\r")

    def _print(self, text: Text, end: str = "\n") -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.print(text, end=end, soft_wrap=True)
