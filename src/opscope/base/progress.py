"""Progress of long tasks, reported to a listener.

    with listening(lambda share: print(f"{share:.0%}")):
        write_perfetto(trace, path)

The task reports between its blocks, on its own thread and without a lock. Without a listener, a
report is one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[float], None]

_LISTENER: ContextVar[Listener | None] = ContextVar("opscope_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener`` with the share done, 0 to 1, within this context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(done: int, total: int) -> None:
    """Report that ``done`` of ``total`` units (rows, bytes) are done."""
    listener = _LISTENER.get()
    if listener is not None and total > 0:
        listener(min(max(done / total, 0.0), 1.0))
