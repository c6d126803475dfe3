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
from opscope.storage.file_kind import FileKind, file_kind
from opscope.storage.manifest import is_later, unfinished_recordings
from opscope.storage.partition import Partition, chosen_partition, in_order, partition_folders
from opscope.storage.remote import local_path

_T = TypeVar("_T")


def parts_of(path: Path) -> tuple[Partition, ...]:
    """The processes that a folder holds recordings of, those without an end among them; ranks come
    first. Empty for what is no folder of ours.
    """
    if not is_folder(path):
        return ()
    begun = _of_begun(path, _parts_of_begun) or set()
    return tuple(in_order({*partition_folders(path), *begun}))


def restarted_parts(path: Path) -> set[Partition]:
    """The processes of a folder of which a recording without an end is later than the trace."""
    return _of_begun(path, _restarted_parts) or set()


def unfinished_part(path: Path, part: Partition | None) -> TraceData | None:
    """What the recording of a process that did not end holds so far; None where a trace that was
    written later is there, or no such recording.

    Args:
        path: of a folder.
        part: which process; None for the only one.
    """

    def newest(begun: list[Path]) -> TraceData | None:
        from opscope.recording.recovered import unfinished_trace

        return unfinished_trace(begun, part, partition_folders(path))

    return _of_begun(path, newest)


def _of_begun(path: Path, ask: Callable[[list[Path]], _T]) -> _T | None:
    """What ``ask`` finds in the recordings of a folder that did not end; None without any.

    Once more where one of them went meanwhile, because its trace was written.
    """
    while begun := unfinished_recordings(path):
        try:
            return ask(begun)
        except (OSError, TraceFormatError):
            if all(one.exists() for one in begun):
                raise
    return None


def _parts_of_begun(begun: list[Path]) -> set[Partition]:
    """Those that can be read; that others cannot is no reason not to read these."""
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
            tool. In a folder where a recording was begun later than the last one ended, its part
            until the end of the process; its metadata has ``ended``.
        rank: which rank of a folder that holds several.
        process: likewise, the id of a process that has no rank (``opscope run --children``).

    Raises:
        TraceFormatError: nothing is there, or it is damaged, foreign, or newer than this opscope.
        InsufficientMemoryError: it does not fit in the memory there is.
        UsageError: the folder holds several and neither ``rank`` nor ``process`` says which.
    """
    with memory_for(f"reading {os.fsdecode(path)}"):
        return _load(local_path(path), chosen_partition(rank, process))


def _load(path: Path, part: Partition | None) -> TraceData:
    if is_folder(path):
        # Importing Arrow takes longer than importing opscope, so only reading a folder does.
        from opscope.storage.read_part import load_part

        unfinished = unfinished_part(path, part)
        return load_part(path, part) if unfinished is None else unfinished
    if status_of(path) is None:
        raise TraceFormatError(
            f"There is no trace at {shown_path(path)}. Check the path; a trace is a folder written "
            "by trace.save() or opscope run, or a Chrome JSON file."
        )
    kind = file_kind(path)
    if kind not in (FileKind.CHROME, FileKind.OTHER):
        raise TraceFormatError(f"{shown_path(path)} is {kind.value}.")
    from opscope.storage.chrome import load_chrome_trace

    return load_chrome_trace(path, part)
