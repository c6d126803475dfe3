"""Worker processes that compute rollups and read files of a job in parallel."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from queue import SimpleQueue

from opscope.base.memory_limit import memory_left
from opscope.base.progress import report_progress
from opscope.base.python_process import own_python
from opscope.base.thread_pool import ThreadPool
from opscope.jobs.rollup import worker

_KEEPS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""glibc settings that reuse freed columns: new pages would take a tenth of a rollup's time."""

_BYTES_OF_PROCESS = 200 << 20
_ENDS_S = 5  # longest time that a process may take to end after its last answer


def in_workers(tasks: Sequence[Sequence[str]], largest_bytes: int) -> Iterator[str]:
    """Run tasks of ``worker`` in parallel, limited by CPUs and memory.

    ``largest_bytes``: memory of the largest. Yields the error of each, in order; empty for success.
    """
    idle: SimpleQueue[_Worker] = SimpleQueue()
    with ExitStack() as stack:
        workers = _at_once(len(tasks), largest_bytes) if tasks else 0
        for _ in range(workers):
            idle.put(stack.enter_context(_Worker()))
        pool = stack.enter_context(ThreadPool(max_workers=workers))
        is_over = threading.Event()
        stack.callback(is_over.set)  # after an interrupt, only running tasks finish

        def do(task: Sequence[str]) -> str:
            if is_over.is_set():
                return ""
            worker = idle.get()
            try:
                return worker.do(task)
            finally:
                idle.put(worker)

        for count, why in enumerate(pool.map(do, tasks)):
            report_progress(count + 1, len(tasks))
            yield why


def _at_once(tasks: int, largest_bytes: int) -> int:
    """Number of parallel workers: one for each CPU, limited by memory."""
    left = memory_left()
    fit = tasks if left is None else left // (largest_bytes + _BYTES_OF_PROCESS)
    return max(min(tasks, fit, len(os.sched_getaffinity(0))), 1)


class _Worker:
    """A process that runs tasks one after the other."""

    def __init__(self) -> None:
        self._process = _begin()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def do(self, task: Sequence[str]) -> str:
        """Error of a task; empty for success."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        try:
            requests.write(json.dumps(list(task)) + "\n")
            requests.flush()
            if answer := answers.readline():
                return str(json.loads(answer))
        except (BrokenPipeError, ValueError):
            pass
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_S)
        self._end()
        code = self._process.returncode
        self._process = _begin()
        return f"{task[1]} could not be read: the process that read it ended with code {code}."

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _begin() -> subprocess.Popen[str]:
    return subprocess.Popen(
        own_python(worker.__file__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **_KEEPS_MEMORY},
    )
