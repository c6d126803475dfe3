"""Reads a trace from any source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from opscope.base.input_file import is_folder, shown_path, status_of
from opscope.base.memory_limit import memory_for
from opscope.base.reused_memory import reusing_memory
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.storage.manifest import is_later, unfinished_recordings
from opscope.storage.partition import Partition, chosen_partition, in_order, partition_folders
from opscope.storage.remote import local_path


def parts_of(path: Path) -> tuple[Partition, ...]:
    """Processes with recordings in a folder, finished or not; ranks first. Empty for others."""
    if not is_folder(path):
        return ()
    unreadable: dict[Path, TraceFormatError] = {}
    begun = {part for _, part in _begun(path, unreadable)}
    found = tuple(in_order({*partition_folders(path), *begun}))
    if unreadable and not found:
        raise [*unreadable.values()][-1]
    return found


def restarted_parts(path: Path) -> set[Partition]:
    """Processes whose unfinished recording is later than their trace in a folder."""
    return {part for one, part in _begun(path, {}) if is_later(one, part)}


def unfinished_part(path: Path, part: Partition | None) -> TraceData | None:
    """The trace so far of a process's newest unfinished recording.

    Args:
        part: which process; None for the only one.

    Returns:
        None without such a recording, or if there is a later trace.
    """
    while True:
        unreadable: dict[Path, TraceFormatError] = {}
        for one, own in _begun(path, unreadable):
            # Finished traces are listed now, because a removed recording has one.
            others = {*partition_folders(path)} - {own}
            is_requested = own == part if part is not None else not others
            if not is_requested or not is_later(one, own):
                continue
            from opscope.recording.recovered import recover

            try:
                return recover(one)
            except (OSError, TraceFormatError):
                if one.exists():
                    raise
                break  # its trace was written meanwhile
        else:
            # They may be of another part, or of one with an earlier trace.
            if unreadable and not partition_folders(path):
                raise [*unreadable.values()][-1]
            return None


def _begun(
    path: Path, unreadable: dict[Path, TraceFormatError]
) -> Iterator[tuple[Path, Partition]]:
    """Unfinished recordings of a folder and their parts, newest first; see ``read_parts``."""
    if not (begun := unfinished_recordings(path)):
        return iter(())
    from opscope.recording.recovered import read_parts

    return read_parts(reversed(begun), unreadable)


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
