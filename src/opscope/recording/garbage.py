"""Having garbage collections reported to the recorder while any recording wants them."""

from __future__ import annotations

import gc
import os

from opscope import _native
from opscope.process_lock import process_lock

_users = 0
# Re-entrant, because a collection may run in the middle and finalize a recording.
_lock = process_lock()


def watch_gc(change: int) -> None:
    """Count one recording more (+1) or less (-1) that wants garbage collections."""
    global _users
    with _lock:
        _users = max(_users + change, 0)
        installed = _native.gc_callback in gc.callbacks
        if _users > 0 and not installed:
            gc.callbacks.append(_native.gc_callback)
        elif _users == 0 and installed:
            gc.callbacks.remove(_native.gc_callback)


def _after_fork_in_child() -> None:
    global _users
    _users = 0
    watch_gc(0)


os.register_at_fork(after_in_child=_after_fork_in_child)
