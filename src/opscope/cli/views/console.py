"""Output to the terminal: messages on standard error, results on standard output.

Names of events come from programs and from files of others, so only printable characters that the
stream's encoding has are written. rich is imported at the first output that needs it: `opscope run`
imports this module in the program's process, and usually prints nothing there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from opscope.base.cached_property import cached_property
from opscope.base.notice import broken_pipes_are_errors
from opscope.base.printable import in_encoding, printable
from opscope.base.progress import listening
from opscope.storage.remote import with_addresses

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDTH_OF_FILES = 160
"""Width of a table in a pipe or file, unless COLUMNS is set."""

_LAYOUT = "\n\t"
"""Permitted control characters."""
_CYAN, _RED, _PLAIN = "\x1b[1;36m", "\x1b[1;31m", "\x1b[0m"


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
    from opscope.cli.views.escaping_console import EscapingConsole

    is_terminal = stream is not None and stream.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES
    # sys.stderr may be None; without ``stderr=True`` rich would then use standard output.
    return EscapingConsole(file=stream, stderr=stream is sys.stderr, highlight=False, width=width)


def _has_colours(stream: TextIO) -> bool:
    is_coloured = stream.isatty() or "FORCE_COLOR" in os.environ
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return is_coloured and not is_plain


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
        self._stream = sys.stderr
        self._animated = animated

    @cached_property
    def _console(self) -> Console:
        return console_for(self._stream)

    @property
    def width(self) -> int:
        """Width of a line in characters."""
        return self._console.width

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal."""
        with contextlib.suppress(ValueError):  # closed
            return self._stream is not None and self._stream.isatty()
        return False

    @property
    def wraps(self) -> bool:
        """Whether sentences are wrapped."""
        return wraps(self._console)

    def say(self, text: str) -> None:
        """Print a paragraph; lines are never wrapped, so that paths can be copied."""
        self._print_paragraph(_CYAN, printable(with_addresses(text)))

    def fail(self, text: str) -> None:
        """Print a paragraph about an error."""
        self._print_paragraph(_RED, with_addresses(text))

    def attempt(self, action: Callable[[], None], otherwise: str) -> None:
        """Call ``action``; its error is printed with the sentence ``otherwise``, not raised."""
        try:
            action()
        except Exception as error:
            self.fail(f"{error} {otherwise}")

    def _print_paragraph(self, colour: str, text: str) -> None:
        # A failed message, for example without memory, must not change how the program ends.
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            stream = self._stream
            begin = f"{colour}opscope: {_PLAIN}" if _has_colours(stream) else "opscope: "
            line = printable(text, keep=_LAYOUT)
            stream.write(begin + in_encoding(line, stream.encoding) + "\n")
            stream.flush()

    def flush(self) -> None:
        """Flush the stream: a forked child would print buffered text again."""
        with contextlib.suppress(Exception):
            self._stream.flush()

    def show(self, renderable: RenderableType) -> None:
        """Print a table or another object of rich."""
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(renderable, crop=self.wraps)

    @contextlib.contextmanager
    def progress(self, label: str) -> Iterator[None]:
        """Show ``label`` on a terminal during the block, and the progress that the work reports."""
        if not self.is_terminal:
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
        from rich.text import Text

        text = Text(line, style="dim")
        with contextlib.suppress(Exception), broken_pipes_are_errors():
            self._console.print(text, end="\r", soft_wrap=True)


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
