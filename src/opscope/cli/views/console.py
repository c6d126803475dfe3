"""Messages on standard error; standard output belongs to the program.

Whatever reaches a terminal goes through here. Names of events come from programs and from files of
others, so a stream is given signs only, and only those its encoding has.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from opscope.base.notice import broken_pipes_are_errors
from opscope.base.printable import in_encoding, printable
from opscope.base.progress import listening
from opscope.storage.remote import with_addresses

WIDTH_OF_FILES = 160
"""Columns of a table that goes to a pipe or file, unless COLUMNS says otherwise."""


_LAYOUT = "\n\t\r"
"""Permitted control characters: newline and tab; rich removes carriage returns."""


class _SignsOnly(Console):
    """A console that spells out control characters in a text instead of sending them."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        # Before it is laid out, so that widths are those of what is shown.
        if isinstance(renderable, Text):
            renderable = self._signs_of(renderable)
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(self._signs(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        # rich would close the program's standard output and end it.
        raise

    def _signs_of(self, text: Text) -> Text:
        plain = text.plain
        if self._signs(plain) == plain:
            return text
        shown = [self._signs(character) for character in plain]
        offset = [0, *accumulate(map(len, shown))]
        copy = text.blank_copy("".join(shown))
        copy.spans = [Span(offset[s.start], offset[s.end], s.style) for s in text.spans]
        return copy

    def _signs(self, text: str) -> str:
        return in_encoding(printable(text, keep=_LAYOUT), self.encoding)


class Output:
    """Standard output, for text that needs no layout."""

    def write(self, text: str) -> None:
        """Write printable text or data such as JSON; characters that cannot be encoded are
        replaced."""
        if sys.stdout is not None:
            sys.stdout.write(in_encoding(text, sys.stdout.encoding))

    def show(self, text: str) -> None:
        """Write lines for people."""
        self.write(printable(text, keep=_LAYOUT))


def console_for(stream: TextIO) -> Console:
    """A console that writes to ``stream`` only, as wide as the terminal that shows it."""
    is_terminal = stream is not None and stream.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES
    # sys.stderr is None in a process without one. With ``stderr``, rich does not take that for
    # standard output.
    return _SignsOnly(file=stream, stderr=stream is sys.stderr, highlight=False, width=width)


def wraps(console: Console) -> bool:
    """Whether sentences are wrapped: in a pipe they stay in one line, unless COLUMNS says more."""
    return console.is_terminal or "COLUMNS" in os.environ


class Messages:
    """Writes lines to standard error as it was when this object was made.

    The stream is kept because a profiled program may replace ``sys.stderr``. One that can no
    longer be written to (closed, or a terminal that went away) is not an error: there is no reader
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

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal."""
        return self._console.is_terminal

    @property
    def wraps(self) -> bool:
        """Whether sentences are wrapped."""
        return wraps(self._console)

    def say(self, text: str) -> None:
        """One paragraph; lines are never wrapped, so that paths can be copied."""
        self._print(Text.assemble(("opscope: ", "bold cyan"), printable(with_addresses(text))))

    def fail(self, text: str) -> None:
        """One paragraph about what went wrong and what to do."""
        self._print(Text.assemble(("opscope: ", "bold red"), with_addresses(text)))

    def flush(self) -> None:
        """Leave nothing for a forked child to say once more."""
        with contextlib.suppress(Exception):
            self._console.file.flush()

    def show(self, what: RenderableType) -> None:
        """Something rich lays out, such as a table."""
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(what, crop=self.wraps)

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[None]:
        """Show that ``what`` is going on, and how far it is once it tells; nothing in a pipe."""
        if not self._console.is_terminal:
            yield
        elif self._animated:
            with _progress_bar(what, self._console):
                yield
        else:
            line = f"opscope: {what} ..."
            self._stand_still(line)
            try:
                with listening(lambda share: self._stand_still(f"{line} {share:4.0%}")):
                    yield
            finally:
                self._print(Text(" " * (len(line) + len(" 100%"))), end="\r")

    def _stand_still(self, line: str) -> None:
        self._print(Text(line, style="dim"), end="\r")

    def _print(self, text: Text, end: str = "\n") -> None:
        # A message that cannot be printed, also for lack of memory, must not change how the
        # program ends.
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(text, end=end, soft_wrap=True)


@contextlib.contextmanager
def _progress_bar(what: str, console: Console) -> Iterator[None]:
    """Until the work tells how far it is, the bar only moves; it is gone afterwards."""
    # Takes as long to import as all else here, and nothing in a pipe needs it.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        with listening(lambda share: bar.update(task, total=1.0, completed=share)):
            yield
