"""Reads a trace from any source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from opscope.base.input_file import is_folder, shown_path, status_of
from opscope.base.memory_limit import memory_for
from opscope.base.reused_memory import reusing_memory
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.manifest import is_later, unfinished_recordings
from opscope.storage.partition import Partition, chosen_partition, in_order, partition_folders
from opscope.storage.remote import local_path

_T = TypeVar("_T")


def parts_of(path: Path) -> tuple[Partition, ...]:
    """Processes with recordings in a folder, finished or not; ranks first. Empty for others."""
    if not is_folder(path):
        return ()
    begun = _of_begun(path, _parts_of_begun) or set()
    return tuple(in_order({*partition_folders(path), *begun}))


def restarted_parts(path: Path) -> set[Partition]:
    """Processes whose unfinished recording is later than their trace in a folder."""
    return _of_begun(path, _restarted_parts) or set()


def unfinished_part(path: Path, part: Partition | None) -> TraceData | None:
    """The trace so far of a process's unfinished recording.

    Args:
        part: which process; None for the only one.

    Returns:
        None without such a recording, or if there is a later trace.
    """

    def newest(begun: list[Path]) -> TraceData | None:
        from opscope.recording.recovered import unfinished_trace

        return unfinished_trace(begun, part, partition_folders(path))

    return _of_begun(path, newest)


def _of_begun(path: Path, read: Callable[[list[Path]], _T]) -> _T | None:
    """Result of ``read`` for the unfinished recordings of a folder; None without any.

    Calls ``read`` again if a recording was removed in between, because its trace was written.
    """
    while begun := unfinished_recordings(path):
        try:
            return read(begun)
        except (OSError, TraceFormatError):
            if all(one.exists() for one in begun):
                raise
    return None


def _parts_of_begun(begun: list[Path]) -> set[Partition]:
    """Parts of the readable recordings. Raises only if none is readable and there is no trace."""
    from opscope.recording.recovered import part_of_recording

    found, unreadable = set(), None
    for one in begun:
        try:
            found.add(part_of_recording(one))
        except TraceFormatError as error:
            if not one.exists():
                raise
            unreadable = error
    if unreadable is not None and not found and not partition_folders(begun[0].parent):
        raise unreadable
    return found


def _restarted_parts(begun: list[Path]) -> set[Partition]:
    from opscope.recording.recovered import part_of_recording

    found = set()
    for one in begun:
        try:
            part = part_of_recording(one)
        except TraceFormatError:
            if not one.exists():
                raise
        else:
            found |= {part} if is_later(one, part) else set()
    return found


@reusing_memory
def load_trace(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> TraceData:
    """Read the trace of one process from disk.

    Args:
        path: a folder written by :meth:`Trace.save` (or by ``opscope run``), one rank's folder in
            it, or a Chrome JSON (``.json``, ``.json.gz``) from opscope, torch.profiler or another
            tool. If the newest recording in a folder is unfinished, its events until the process
            ended; its metadata has ``ended``.
        rank: which rank of a folder with several.
        process: which process without a rank, by id (``opscope run --children``).

    Raises:
        TraceFormatError: nothing is there, or it is damaged, foreign, or newer than this opscope.
        InsufficientMemoryError: the trace does not fit in memory.
        UsageError: the folder holds several and neither ``rank`` nor ``process`` says which.
    """
    with memory_for(f"reading {os.fsdecode(path)}"):
        return _load(local_path(path), chosen_partition(rank, process))


def _load(path: Path, part: Partition | None) -> TraceData:
    if is_folder(path):
        # Only reading a folder imports Arrow, which takes longer than importing opscope.
        from opscope.storage.read_part import load_part

        unfinished = unfinished_part(path, part)
        return load_part(path, part) if unfinished is None else unfinished
    if status_of(path) is None:
        raise TraceFormatError(
            f"There is no trace at {shown_path(path)}. Check the path; a trace is a folder written "
            "by trace.save() or opscope run, or a Chrome JSON file."
        )
    from opscope.storage.chrome import load_chrome_trace
    from opscope.storage.file_kind import FileKind, file_kind

    kind = file_kind(path)
    if kind not in (FileKind.CHROME, FileKind.OTHER):
        raise TraceFormatError(f"{shown_path(path)} is {kind.value}.")
    return load_chrome_trace(path, part)
