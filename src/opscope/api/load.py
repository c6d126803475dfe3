"""``load``: reads a trace, or a job of several processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from opscope.api.trace import Trace
from opscope.errors import UsageError
from opscope.jobs.recordings import TraceFolder, find_recordings
from opscope.recording.streams.load import load_trace as load_process
from opscope.storage.partition import chosen_partition
from opscope.storage.remote import addresses_in_errors, local_path

if TYPE_CHECKING:
    from opscope.api.job import Job


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
    """Read a trace or a job.

    Args:
        path: a folder written by :meth:`Trace.save` or ``opscope run``; one rank's folder in it; a
            Chrome JSON file (``.json``, ``.json.gz``) of any tool; a folder of Chrome traces, one
            for each rank; a folder with such folders, one for each host of a job; or a URL such as
            ``s3://bucket/job``, from which the needed files are copied to a temporary folder. If
            the folder has an unfinished recording that is newer than its trace, that recording is
            read, and its metadata has ``ended``.
        rank: the rank to read from a folder with several.
        process: the id of the process to read, if it has no rank (``opscope run --children``).

    Returns:
        A :class:`Job` for a folder with several processes, without ``rank`` and ``process``; else a
        :class:`Trace`.

    Raises:
        TraceFormatError: the trace is missing, damaged, in an unknown format, or newer than this
            opscope.
        InsufficientMemoryError: the trace does not fit in memory.
        UsageError: there is no such rank or process.
    """
    part = chosen_partition(rank, process)
    path = local_path(path)
    with addresses_in_errors():
        source = find_recordings(path)
        if source is not None and part is None and len(source.parts) > 1:
            return _job(path)
        if source is not None and not isinstance(source, TraceFolder):
            return _job(path)[source.parts[0] if part is None else part]
        return Trace.of(load_process(path, rank, process))


def load_trace(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> Trace:
    """:func:`load` for one process; returns a :class:`Trace`.

    Raises:
        UsageError: there are several processes, and neither ``rank`` nor ``process`` is given.
    """
    loaded = load(path, rank, process)
    if isinstance(loaded, Trace):
        return loaded
    raise UsageError(
        f"{os.fspath(path)} holds {len(loaded)} processes: choose one with rank= or process=, or "
        "call load_job()."
    )


def load_job(path: str | os.PathLike[str]) -> Job:
    """:func:`load` for several processes; returns a :class:`Job`."""
    return _job(local_path(path))


def _job(path: str | os.PathLike[str]) -> Job:
    # Imported here, because it imports pyarrow, which a single Chrome trace does not need.
    from opscope.api.job import Job

    return Job(path)
