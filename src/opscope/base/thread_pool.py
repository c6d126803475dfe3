"""A thread pool that works at any time: at exit, or in a signal handler.

``opscope run`` writes a program's trace from an exit function, when Python no longer starts
threads. A signal handler may write a trace while the interrupted code writes one: the pools of
concurrent.futures share a lock, on which the handler would deadlock. These pools share nothing.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from opscope.base.memory_limit import process_memory_left

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

_Task = tuple["Future[Any]", Callable[[], Any]]


class ThreadPool:
    """Runs tasks on up to ``max_workers`` threads, or in the calling thread if none can start.

    No thread can start at shutdown or at the system's limit of threads. None is started in a
    process with limited address space: a thread without memory never reports its start, and its
    starter would wait forever.

    Use it in a ``with`` block, which ends after all tasks, or call :meth:`close`.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._workers: list[_thread.LockType] = []  # each is held until its worker ends

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        for ended in self._workers:
            ended.acquire()

    def close(self) -> None:
        """End the workers after the queued work, without waiting."""
        self._tasks.put(None)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call of ``fn``; the future gets its result or exception."""
        future: Future[T] = Future()
        task = (future, lambda: fn(*args, **kwargs))
        if len(self._workers) < self._max_workers:
            self._start_worker()
        if self._workers:
            self._tasks.put(task)
        else:
            _run_task(task)
        return future

    def map(self, fn: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Results of all ``items``, in their order."""
        futures = [self.submit(fn, item) for item in items]
        return (future.result() for future in futures)

    def _start_worker(self) -> None:
        # The main thread counts as ended as soon as shutdown begins.
        if not threading.main_thread().is_alive() or process_memory_left() is not None:
            return
        ended = _thread.allocate_lock()
        ended.acquire()
        try:
            _thread.start_new_thread(_work, (self._tasks, ended))
        except RuntimeError:  # the process's limit of threads
            return
        self._workers.append(ended)


def _work(tasks: SimpleQueue[_Task | None], ended: _thread.LockType) -> None:
    try:
        while (task := tasks.get()) is not None:
            _run_task(task)
        tasks.put(None)  # for the next worker
    finally:
        ended.release()


def _run_task(task: _Task) -> None:
    future, call = task
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
