"""Listening because the environment says so: a program never fails for it."""

from __future__ import annotations

from opscope.base.notice import notice
from opscope.live.control.server import listen


def listen_if_possible() -> None:
    """As :func:`opscope.listen`; what stands in the way is said."""
    try:
        listen()
    except Exception as error:
        notice(f"OPSCOPE_CONTROL=1 has no effect: {error}")
