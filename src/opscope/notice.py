"""A line for whoever runs the program, from inside it."""

from __future__ import annotations

import sys
from contextlib import suppress

from opscope.printable import printable


def notice(text: str) -> None:
    """Say ``text`` on standard error. One that is closed or full is no error of the program's."""
    stream = sys.stderr
    if stream is None:  # print() would take standard output instead
        return
    with suppress(OSError, ValueError):
        stream.write(f"opscope: {printable(text)}\n")
        stream.flush()
