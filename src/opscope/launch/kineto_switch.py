"""``KINETO_USE_DAEMON``: whether torch's own Kineto or opscope serves Dynolog's daemon.

Kineto reads the variable while torch is imported, and polls the daemon from then on. A request is
answered once, so only one of them may poll.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH = "KINETO_USE_DAEMON"
_hidden: str | None = None


def hide_from_kineto() -> None:
    """Keep Kineto from querying the daemon; no effect once torch is imported."""
    global _hidden
    if is_daemon_enabled() and "torch" not in sys.modules:
        _hidden = os.environ.pop(SWITCH)


def restore_variable() -> bool:
    """Restore the variable after torch's import; returns whether it was hidden."""
    global _hidden
    hidden, _hidden = _hidden, None
    if hidden is not None:
        os.environ.setdefault(SWITCH, hidden)
    return hidden is not None


@contextmanager
def hidden_from_kineto() -> Iterator[bool]:
    """Hide the variable while torch is imported; yields whether it is hidden."""
    hide_from_kineto()
    try:
        yield _hidden is not None
    finally:
        restore_variable()


def is_daemon_enabled() -> bool:
    """Whether the variable enables the daemon's client."""
    return os.environ.get(SWITCH, "0").strip() not in ("", "0")
