"""Text from a trace, as far as a page should carry it."""

from __future__ import annotations

from opscope.base.printable import printable

LONGEST = 1000


def shown(text: str) -> str:
    """``text``, shortened to :data:`LONGEST` characters; then it says how long it was.

    What is no sign of its own, such as a mark that turns the direction of writing, is spelled out.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text):,} characters)"
    return printable(text, keep="\n\t")
