"""One function that reads whatever holds a recording: a trace, or a job of several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from opscope.api.trace import Trace
from opscope.errors import UsageError
from opscope.jobs.chrome_files import ChromeFile, ChromeFolder
from opscope.jobs.recordings import HostFolders, find_recordings
from opscope.recording.streams.load import load_trace as load_process
from opscope.storage.partition import asked_partition
from opscope.storage.remote import asked_names, local_path

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
    """Read what was recorded from disk.

    Args:
        path: a folder written by :meth:`Trace.save` (or by ``opscope run``), one rank's folder in
            it, or a Chrome JSON (``.json``, ``.json.gz``) from opscope,
            torch.profiler or another tool; or a folder of Chrome traces, one for each rank; or one
            of several such folders with ranks of the same job, each copied from a host; or the
            address of one elsewhere, as in ``s3://bucket/job``, of which is copied to a folder for
            temporary files what is asked for. In a folder where a recording was begun later than
            the last one ended, it is that one, as far as it came; its metadata has ``ended``.
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
    asked = asked_partition(rank, process)
    path = local_path(path)
    with asked_names():
        source = find_recordings(path)
        if source is not None and asked is None and len(source.parts) > 1:
            return _job(path)
        if isinstance(source, ChromeFile | ChromeFolder | HostFolders):
            return _job(path)[source.parts[0] if asked is None else asked]
        return Trace.of(load_process(path, rank, process))


def load_trace(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> Trace:
    """:func:`load` of one process: type checkers know that it is a :class:`Trace`.

    Raises:
        UsageError: there are several processes and neither ``rank`` nor ``process`` says which.
    """
    loaded = load(path, rank, process)
    if isinstance(loaded, Trace):
        return loaded
    raise UsageError(
        f"{os.fspath(path)} holds {len(loaded)} processes: choose one with rank= or process=, or "
        "take load_job()."
    )


def load_job(path: str | os.PathLike[str]) -> Job:
    """:func:`load` of the traces of a job: type checkers know that it is a :class:`Job`.

    Raises:
        TraceFormatError: nothing is there, or it is damaged, foreign, or newer than this opscope.
    """
    return _job(local_path(path))


def _job(path: str | os.PathLike[str]) -> Job:
    # What a job says of its processes takes pyarrow; a trace of one in Chrome's format does not.
    from opscope.api.job import Job

    return Job(path)
