"""Locks of a whole process: whoever held one when the process forked is not in the child."""

from __future__ import annotations

import os
import threading
from typing import Any


def process_lock() -> Any:
    """A re-entrant lock that every forked child finds free; meant for globals of a module.

    What it protects may have been in the middle of a change by another thread at that moment, so
    it must make sense at every step.
    """
    lock: Any = threading.RLock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
