"""How long this process's connections had something to send, as the kernel counts it.

A rank whose messages leave slowly keeps the others waiting as long as it waits itself, so that no
operator of any of them shows whose they were. The kernel knows: of every TCP connection it counts
for how long there was something to send that had not arrived. Connections that carry little are
left out: that a short message arrived is said when there is time for it, up to 40 ms later.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

from opscope.trace.sent import Sent

_IPPROTO_TCP, _TCP_INFO = 6, 11
_BYTES_ACKED, _BUSY_US, _RECEIVER_US = 120, 168, 176
"""Where these are in the kernel's ``struct tcp_info``, which only grows."""
_LEAST_SIZE = 184
_MOST = 500
"""Files and connections of a process: to look at more takes longer than the program should wait."""


class Connections:
    """What was sent over the connections of this process from one moment on."""

    def __init__(self) -> None:
        self._first: dict[int, Sent] | None = None
        self._last: dict[int, Sent] = {}

    def note(self) -> Sent | None:
        """Look at them: sums over those that carried most since the first look. None without any.

        What one sends between the last look and its end is not known.
        """
        now = read_connections()
        if self._first is None:
            self._first = now
        self._last.update(now)
        nothing = Sent()
        each = [last - self._first.get(key, nothing) for key, last in self._last.items()]
        most = max((one.arrived_bytes for one in each), default=0)
        return (
            sum((one for one in each if one.arrived_bytes * 2 >= most), nothing) if most else None
        )


def read_connections() -> dict[int, Sent]:
    """Of every TCP connection, by what tells it from all others. Empty where nothing counts, or
    where there are too many."""
    if sys.platform != "linux":
        return {}
    found = {}
    descriptors = os.listdir("/proc/self/fd")
    if len(descriptors) > _MOST:
        return {}
    for name in descriptors:
        sent = _read(int(name))
        if sent is not None:
            try:
                found[os.fstat(int(name)).st_ino] = sent
            except OSError:  # it was closed meanwhile
                continue
    return found


def _read(descriptor: int) -> Sent | None:
    """None for what is no TCP connection, or of a kernel that does not count."""
    info = (ctypes.c_char * 256)()
    size = ctypes.c_uint32(len(info))
    failed = _library().getsockopt(
        descriptor, _IPPROTO_TCP, _TCP_INFO, ctypes.byref(info), ctypes.byref(size)
    )
    if failed or size.value < _LEAST_SIZE:
        return None
    acked, busy_us, receiver_us = (
        ctypes.c_uint64.from_buffer(info, at).value for at in (_BYTES_ACKED, _BUSY_US, _RECEIVER_US)
    )
    return Sent(acked, max(busy_us - receiver_us, 0) * 1000)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
