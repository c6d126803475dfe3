"""Rollups of many processes, made beside each other, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from opscope.errors import TraceFormatError
from opscope.memory_limit import memory_left
from opscope.own_python import own_python
from opscope.progress import tell
from opscope.rollup import worker
from opscope.rollup.write import BYTES_PER_EVENT_READ
from opscope.thread_pool import ThreadPool
from opscope.trace.manifest import read_manifest
from opscope.trace.remote import complete

_KEEPS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""Columns that are freed are used for the next ones, and for those of the next trace: having the
kernel give out pages again for each takes a tenth of adding up. As glibc reads it."""

_BYTES_OF_PROCESS = 200 << 20


def roll_up_several(wanted: Mapping[Path, Path]) -> dict[Path, str]:
    """Make rollups, as many at a time as there are processors and memory for.

    Args:
        wanted: by the folder of a part, where to write its rollup; mostly the same.

    Returns:
        Why that failed, by the folder of the part; empty where all were made.
    """
    for part in wanted:
        complete(part)
    idle: SimpleQueue[_Worker] = SimpleQueue()
    with ExitStack() as stack:
        workers = at_once(list(wanted)) if wanted else 0
        for _ in range(workers):
            idle.put(stack.enter_context(_Worker()))
        pool = stack.enter_context(ThreadPool(max_workers=workers))
        is_over = threading.Event()
        stack.callback(is_over.set)  # an interrupt waits for those under way, and not for all

        def roll_up(part: Path) -> str:
            if is_over.is_set():
                return ""
            worker = idle.get()
            try:
                return worker.roll_up(part, wanted[part])
            finally:
                idle.put(worker)

        outcome = {}
        for count, (part, why) in enumerate(zip(wanted, pool.map(roll_up, wanted), strict=True)):
            outcome[part] = why
            tell(count + 1, len(wanted))
    return {part: why for part, why in outcome.items() if why}


def at_once(parts: list[Path]) -> int:
    """How many may be made beside each other: one for a processor, as far as memory goes."""
    largest = max((_events(part) for part in parts), default=0)
    left = memory_left()
    needed = largest * BYTES_PER_EVENT_READ + _BYTES_OF_PROCESS
    fit = len(parts) if left is None else left // needed
    return max(min(len(parts), fit, len(os.sched_getaffinity(0))), 1)


def _events(part: Path) -> int:
    try:
        return read_manifest(part).tables.get("events", {}).get("rows", 0)
    except TraceFormatError:
        return 0


class _Worker:
    """A process that makes one rollup after the other, as it is told."""

    def __init__(self) -> None:
        self._process = _begin()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def roll_up(self, part: Path, into: Path) -> str:
        """Why it failed; empty where it was made."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        try:
            asked.write(json.dumps([os.fspath(part), os.fspath(into)]) + "\n")
            asked.flush()
            if answer := answers.readline():
                return str(json.loads(answer))
        except (BrokenPipeError, ValueError):
            pass
        self._end()
        self._process = _begin()
        return f"{part} could not be added up: the process that was to do it was killed."

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
