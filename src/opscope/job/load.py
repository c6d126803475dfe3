"""One function that reads whatever holds a recording: a trace, or a job of several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import overload

from opscope.job.job import Job
from opscope.trace.load import load_trace, parts_of
from opscope.trace.trace import Trace


@overload
def load(path: str | os.PathLike[str], rank: int, process: None = None) -> Trace: ...


@overload
def load(path: str | os.PathLike[str], rank: None = None, *, process: int) -> Trace: ...


@overload
def load(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> Trace | Job: ...


def load(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> Trace | Job:
    """Read what was recorded from disk.

    Args:
        path: a folder written by :meth:`Trace.save` (or by ``opscope run``), one rank's folder in
            it, or a Chrome JSON or execution trace (``.json``, ``.json.gz``) from opscope,
            torch.profiler or another tool. In a folder where a recording was begun later than the
            last one ended, it is that one, as far as it came; its metadata has ``ended``.
        rank: which rank of a folder that holds several.
        process: likewise, the id of a process that has no rank (``opscope run --children``).

    Returns:
        The trace of a process; of a folder that holds several, where neither ``rank`` nor
        ``process`` says which, the :class:`Job` of them all.

    Raises:
        TraceFormatError: nothing is there, or it is damaged, foreign, or newer than this opscope.
        InsufficientMemoryError: it does not fit in the memory there is.
        UsageError: what was asked for is not there.
    """
    if rank is None and process is None and len(parts_of(Path(os.fsdecode(path)))) > 1:
        return Job(path)
    return load_trace(path, rank, process)
