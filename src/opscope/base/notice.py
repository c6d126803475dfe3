"""Lines that opscope prints to standard error from inside a program."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from opscope.base.printable import printable


def notice(text: str) -> None:
    """Print ``text`` to standard error; no error in the program if that is closed or full."""
    stream = sys.stderr
    if stream is None:  # print() would use standard output instead
        return
    with suppress(OSError, ValueError), broken_pipes_are_errors():
        stream.write(f"opscope: {printable(text)}\n")
        stream.flush()


@contextmanager
def broken_pipes_are_errors() -> Iterator[None]:
    """Make writing to a closed pipe raise an error, whatever the program's SIGPIPE action."""
    pipe = {signal.SIGPIPE}
    others = signal.pthread_sigmask(signal.SIG_BLOCK, pipe)
    try:
        yield
    finally:
        if signal.SIGPIPE not in others:
            signal.sigtimedwait(pipe, 0)  # pending for this thread, which wrote
            signal.pthread_sigmask(signal.SIG_UNBLOCK, pipe)
