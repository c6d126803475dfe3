"""Output to the terminal: messages on standard error, results on standard output.

Names of events come from programs and from files of others, so only printable characters that the
stream's encoding has are written.
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
"""Width of a table in a pipe or file, unless COLUMNS is set."""

_LAYOUT = "\n\t\r"
"""Permitted control characters: newline and tab; rich removes carriage returns."""


class _EscapingConsole(Console):
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        # Escape before the layout, which depends on the width of the text.
        if isinstance(renderable, Text):
            renderable = self._escaped_text(renderable)
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(self._escaped(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        # Without this, rich would close standard output and end the process.
        raise

    def _escaped_text(self, text: Text) -> Text:
        plain = text.plain
        if self._escaped(plain) == plain:
            return text
        shown = [self._escaped(character) for character in plain]
        offset = [0, *accumulate(map(len, shown))]
        copy = text.blank_copy("".join(shown))
        copy.spans = [Span(offset[s.start], offset[s.end], s.style) for s in text.spans]
        return copy

    def _escaped(self, text: str) -> str:
        return in_encoding(printable(text, keep=_LAYOUT), self.encoding)


class Output:
    """Standard output, for text that needs no layout."""

    def write(self, text: str) -> None:
        """Write text without escapes; characters that cannot be encoded are replaced."""
        if sys.stdout is not None:
            sys.stdout.write(in_encoding(text, sys.stdout.encoding))

    def show(self, text: str) -> None:
        """Write lines; control characters are escaped."""
        self.write(printable(text, keep=_LAYOUT))


def console_for(stream: TextIO) -> Console:
    """A console that writes to ``stream``, with the width of the terminal."""
    is_terminal = stream is not None and stream.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES
    # sys.stderr may be None; without ``stderr=True`` rich would then use standard output.
    return _EscapingConsole(file=stream, stderr=stream is sys.stderr, highlight=False, width=width)


def wraps(console: Console) -> bool:
    """Whether sentences are wrapped: on a terminal, or if COLUMNS is set."""
    return console.is_terminal or "COLUMNS" in os.environ


class Messages:
    """Writes lines to the standard error of the time when this object was made.

    The profiled program may replace ``sys.stderr`` later. Errors of writing, such as a closed
    terminal, are ignored.
    """

    def __init__(self, *, animated: bool = True) -> None:
        """``animated``: show progress as a bar, which needs a thread; else as a text.

        ``opscope run`` writes files at Python's shutdown, which cannot start threads.
        """
        self._console = console_for(sys.stderr)
        self._animated = animated

    @property
    def width(self) -> int:
        """Width of a line in characters."""
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
        """Print a paragraph; lines are never wrapped, so that paths can be copied."""
        self._print(Text.assemble(("opscope: ", "bold cyan"), printable(with_addresses(text))))

    def fail(self, text: str) -> None:
        """Print a paragraph about an error."""
        self._print(Text.assemble(("opscope: ", "bold red"), with_addresses(text)))

    def flush(self) -> None:
        """Flush the stream: a forked child would print buffered text again."""
        with contextlib.suppress(Exception):
            self._console.file.flush()

    def show(self, renderable: RenderableType) -> None:
        """Print a table or another object of rich."""
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(renderable, crop=self.wraps)

    @contextlib.contextmanager
    def progress(self, label: str) -> Iterator[None]:
        """Show ``label`` on a terminal during the block, and the progress that the work reports."""
        if not self._console.is_terminal:
            yield
        elif self._animated:
            with _progress_bar(label, self._console):
                yield
        else:
            line = f"opscope: {label} ..."
            self._print_over(line)
            try:
                with listening(lambda share: self._print_over(f"{line} {share:4.0%}")):
                    yield
            finally:
                self._print_over(" " * (len(line) + len(" 100%")))

    def _print_over(self, line: str) -> None:
        self._print(Text(line, style="dim"), end="\r")

    def _print(self, text: Text, end: str = "\n") -> None:
        # A failed message, for example without memory, must not change how the program ends.
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(text, end=end, soft_wrap=True)


@contextlib.contextmanager
def _progress_bar(what: str, console: Console) -> Iterator[None]:
    """A bar that shows the progress, or movement until the work reports any."""
    # Slow to import, and not needed in a pipe.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        with listening(lambda share: bar.update(task, total=1.0, completed=share)):
            yield
