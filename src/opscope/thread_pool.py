"""Threads for work that may also have to be done while the interpreter shuts down.

What a whole program did is written when it ends, from an exit function, and by then Python starts
no threads any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool(ThreadPoolExecutor):
    """A ThreadPoolExecutor that does the work at once, itself, where no thread can be started."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As in the base class; at shutdown the future returned is done already."""
        # The main thread counts as ended as soon as shutdown begins.
        if threading.main_thread().is_alive():
            return super().submit(fn, *args, **kwargs)
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future
