"""Threads for work that may also have to be done while the interpreter shuts down.

What a whole program did is written when it ends, from an exit function, and by then Python starts
no threads any more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(ThreadPoolExecutor):
    """A ThreadPoolExecutor that does the work at once, itself, where no thread can be started.

    That is at shutdown, and where the system allows no more of them. Nor are any started where a
    process may not have all address space: one that finds no memory for its first steps leaves
    whoever started it waiting for ever.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As in the base class; without a thread the future returned is done already."""
        # The main thread counts as ended as soon as shutdown begins.
        if threading.main_thread().is_alive() and not _address_space_is_limited():
            queued = super().submit(fn, *args, **kwargs)
            if self._threads:
                return queued
            queued.cancel()  # nobody is there to begin with it
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    def _adjust_thread_count(self) -> None:
        with contextlib.suppress(RuntimeError):
            super()._adjust_thread_count()


def _address_space_is_limited() -> bool:
    if resource is None:
        return False
    return any(
        resource.getrlimit(limit)[0] != resource.RLIM_INFINITY
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    )
