"""Available memory, and the error if it is insufficient."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opscope.errors import InsufficientMemoryError

_PROCESS = Path("/proc/self/statm")
_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**64 - 1
_SIZE, _DATA = 0, 5
"""Indexes of the fields of ``statm`` that limits apply to."""

_LIBRARY_DOES_NOT_FIT = ("failed to map segment", "cannot map zero-fill pages", "cannot allocate")
"""Messages of the dynamic loader when a module does not fit into memory."""


@contextmanager
def memory_for(purpose: str) -> Iterator[None]:
    """Convert errors of missing memory to InsufficientMemoryError with advice."""
    try:
        yield
    except InsufficientMemoryError:
        raise
    except MemoryError as error:
        raise _insufficient(purpose, "") from error
    except ImportError as error:
        if not any(message in str(error) for message in _LIBRARY_DOES_NOT_FIT):
            raise
        raise _insufficient(purpose, "") from error


def require_memory(needed_bytes: int, purpose: str, left: int | None = None) -> None:
    """Raise an error before memory runs out, if the limit is known.

    Raises:
        InsufficientMemoryError: ``needed_bytes`` exceeds ``left``, by default :func:`memory_left`.
    """
    left = memory_left() if left is None else left
    if left is not None and needed_bytes > left:
        needs = f": it needs about {_gigabytes(needed_bytes)}, but {_gigabytes(left)} are available"
        raise _insufficient(purpose, needs)


def memory_left() -> int | None:
    """Bytes left to this process, its container and the machine; None if unknown."""
    return _smallest(_of_machine(), _of_container(), process_memory_left())


def default_growth_bytes() -> int:
    """Default limit of a recording: half of the available memory."""
    left = memory_left()
    return UNLIMITED_BYTES if left is None else left // 2


def process_memory_left() -> int | None:
    """Bytes left below the process's own limits; None without limits."""
    return _smallest(_of_process("RLIMIT_AS", _SIZE), _of_process("RLIMIT_DATA", _DATA))


def _smallest(*limits: int | None) -> int | None:
    known = [left for left in limits if left is not None]
    return max(min(known), 0) if known else None


@contextmanager
def no_more_than_is_free() -> Iterator[None]:
    """Make allocations beyond free memory fail, so that the system does not kill the process.

    Reserved address space, as of GPU drivers, does not count. Only for opscope's own processes: the
    limit applies to all threads. No effect if a limit is set already.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    left, used = memory_left(), _pages_of_process(_DATA)
    if left is None or used is None or soft != resource.RLIM_INFINITY:
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (used + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _insufficient(purpose: str, detail: str) -> InsufficientMemoryError:
    return InsufficientMemoryError(
        f"There is not enough memory for {purpose}{detail}. Close other programs, raise the memory "
        "limit (ulimit -v, the container's), or use a machine with more; a recording of fewer "
        "steps, or without stacks and shapes, takes less."
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _of_machine() -> int | None:
    try:
        lines = _MACHINE.read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _of_container() -> int | None:
    try:
        used = int((_CONTAINER / "memory.current").read_text())
        return int((_CONTAINER / "memory.max").read_text()) - used
    except (OSError, ValueError):  # no limit ("max"), or another kind of system
        return None


def _of_process(name: str, field: int) -> int | None:
    limit = resource.getrlimit(getattr(resource, name))[0]
    if limit == resource.RLIM_INFINITY:
        return None
    used = _pages_of_process(field)
    return None if used is None else limit - used


def _pages_of_process(field: int) -> int | None:
    """Bytes of a field of ``/proc/self/statm``, see ``proc(5)``; None if it cannot be read."""
    try:
        return int(_PROCESS.read_text().split()[field]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None
