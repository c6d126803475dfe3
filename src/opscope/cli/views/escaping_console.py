"""A console of rich that escapes what it prints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from opscope.base.printable import in_encoding, printable

_LAYOUT = "\n\t\r"
"""Permitted control characters: newline and tab; rich removes carriage returns."""


class EscapingConsole(Console):
    """Writes only printable characters that the stream's encoding has."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The parts of ``renderable`` as escaped text."""
        # Escape before the layout, which depends on the width of the text.
        if isinstance(renderable, Text):
            renderable = self._escaped_text(renderable)
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(self._escaped(segment.text), segment.style)

    def show_cursor(self, show: bool = True) -> bool:
        """Never hide the cursor: a killed process does not show it again."""
        return False

    def on_broken_pipe(self) -> None:
        """Raise the error: rich would close standard output and end the process."""
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
