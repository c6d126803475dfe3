"""Writing a trace to disk: a folder of Parquet files per rank; ``manifest`` shows the layout.

A new trace replaces an earlier one in its folder; other files stay.

If memory runs out, Arrow may throw an exception through C frames, which aborts the process. So
memory is checked before Arrow is imported.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from opscope.base.address import refuse_address
from opscope.base.artefacts import (
    LOCK,
    LeftKind,
    below,
    claimed,
    locked_folder,
    remove_parts,
    unfinished_name,
)
from opscope.base.files import remove_inside
from opscope.base.folder_swap import replace_folder
from opscope.base.input_file import shown_path, status_of
from opscope.base.memory_limit import memory_for, process_memory_left, require_memory
from opscope.base.notice import notice
from opscope.base.reused_memory import reusing_memory
from opscope.base.thread_pool import ThreadPool
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.job import place_in_job
from opscope.storage.manifest import PROCESSES, Manifest, foreign_entry, own_files
from opscope.storage.partition import RANK, Partition, partition_folders

_LIBRARIES_BYTES, _POOLS_BYTES, _ROW_BYTES = 1 << 30, 1 << 27, 400
"""Upper bounds: loading Arrow's libraries, its pools afterwards, and a row during writing."""


@reusing_memory
def save_part(
    trace: TraceData, path: str | os.PathLike[str], part: Partition | None = None
) -> Path:
    """Write ``trace`` as one part of a trace folder; returns the part's folder.

    The part appears complete or not at all. It replaces an earlier trace of opscope in ``path``:
    the same rank, ranks beyond this run's world size, and processes; other files in their folders
    stay. Rank and world size are those of the recording (``distributedInfo`` in its metadata; 0 of
    1 without). A given ``part`` replaces only that part, so that several traces can be side by
    side.

    Raises:
        UsageError: ``path`` is a file, contains other data than a trace, or cannot be written.
        InsufficientMemoryError: it exceeds the available memory or the process's limit.
    """
    folder = Path(path)
    with memory_for(f"writing {shown_path(folder)}"):
        if (left := process_memory_left()) is not None:
            require_memory(_bytes_to_save(trace), f"writing {shown_path(folder)}", left)

        from opscope.storage.parquet import write_table

        def write(unfinished: Path, rank: int) -> None:
            tables = [name for name in TABLES if len(trace.table(name))]
            # Parquet encoding releases the GIL, and two tables make up most of a trace.
            with ThreadPool(max_workers=4) as pool:
                sizes = pool.map(
                    lambda name: write_table(trace, name, unfinished), [*tables, "names"]
                )
                Manifest(dict(sizes), rank).write(unfinished)

        return save_files(folder, part, trace.metadata, write)


def _bytes_to_save(trace: TraceData) -> int:
    rows = sum(len(trace.table(name)) for name in TABLES) + len(trace.names)
    is_loaded = "pyarrow.parquet" in sys.modules
    return (_POOLS_BYTES if is_loaded else _LIBRARIES_BYTES) + rows * _ROW_BYTES


def save_files(
    folder: Path,
    part: Partition | None,
    metadata: Mapping[str, Any],
    write: Callable[[Path, int], object],
) -> Path:
    """Like :func:`save_part`, for files that ``write`` puts into a folder.

    Args:
        folder: the trace folder.
        part: the part of the files; None for the one in the metadata.
        metadata: metadata of the recording.
        write: called with the part's folder and the rank for its manifest.
    """
    refuse_address(folder)
    rank, world_size = place_in_job(metadata)
    target = Partition(RANK, rank) if part is None else part
    _refuse_foreign(folder)
    final = folder / target.folder_name
    remove_begun(folder)
    with _writing(folder), _hidden_folder(final) as unfinished:
        write(unfinished, target.number if target.kind == RANK else 0)
        _replace_rank(final, unfinished)
        if part is None:
            ranks = {Partition(RANK, number) for number in range(world_size)}
            _delete_others(folder, ranks, final)
    return final


@contextmanager
def all_parts_of(folder: Path) -> Iterator[Path]:
    """A folder for several parts, which replace the trace in ``folder`` when all are written.

    Until then ``folder`` is unchanged.
    """
    refuse_address(folder)
    _refuse_foreign(folder)
    try:
        with _writing(folder), _hidden_folder(folder / "job") as unfinished:
            yield unfinished
            new_parts = partition_folders(unfinished)
            for part, new in new_parts.items():
                _replace_rank(folder / part.folder_name, new)
            kept_files = folder / min(part.folder_name for part in new_parts)
            _delete_others(folder, new_parts, kept_files)
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _delete_others(folder: Path, new: Container[Partition], kept_files: Path) -> None:
    for part, stale in partition_folders(folder).items():
        if part not in new:
            _delete_rank(stale, kept_files)
    (folder / PROCESSES).unlink(missing_ok=True)


def _refuse_foreign(folder: Path) -> None:
    """Raise UsageError unless the folder is new, empty, or an opscope trace."""
    if folder.suffix in (".json", ".gz"):
        raise UsageError(
            f"save() writes a folder, and {folder.name} is the name of a file. Choose a name "
            "without a suffix, or use export_chrome_trace() for a Chrome JSON."
        )
    try:
        status = status_of(folder)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{folder} is a file, but a trace is a folder. Choose another path.")
        foreign = "" if status is None else foreign_entry(folder)
    except (OSError, TraceFormatError) as error:
        raise _unwritable(folder, error.__cause__ or error) from error
    if foreign:
        raise UsageError(
            f"{folder} is not empty and holds {foreign}, which does not belong to a trace, so the "
            "trace was not saved. Choose a new folder, or the folder of an earlier trace."
        )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: BaseException) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(
        f"The trace cannot be written to {shown_path(folder)}: {reason}. Choose a writable "
        "folder with enough space and save again; the recording is still in memory."
    )


@contextmanager
def _hidden_folder(final: Path) -> Iterator[Path]:
    with locked_folder(final.with_name(unfinished_name(final.name))) as unfinished:
        try:
            yield unfinished
        finally:
            remove_inside(final.parent, unfinished.name)


def _replace_rank(final: Path, unfinished: Path) -> None:
    with _aside(final) as aside:
        new = unfinished.rename(aside / "new")  # has the earlier rank after the exchange
        (new / LOCK).unlink(missing_ok=True)
        replace_folder(final, new, aside)
        _delete_all(aside, final, final.name)


def _delete_rank(stale: Path, kept_files: Path) -> None:
    """Delete a rank that the new trace lacks; other files go to the folder ``kept_files``."""
    with suppress(OSError), _aside(stale) as aside:
        stale.rename(aside / "old")
        _delete_all(aside, kept_files / f"earlier-{stale.name}", stale.name)


def remove_begun(folder: Path) -> None:
    """Remove unfinished and replaced folders of killed processes."""
    remove_parts(folder)
    for artefact in below(folder, LeftKind.REPLACED):
        name = artefact.name[1:].partition(".")[0]
        with suppress(OSError), claimed(artefact) as exists:
            if exists:
                _delete_all(artefact.path, artefact.folder / f"earlier-{name}", name)
                (artefact.path / LOCK).unlink()
                artefact.path.rmdir()


def _aside(final: Path) -> AbstractContextManager[Path]:
    """A folder for the earlier trace; other files that cannot be moved stay in it."""
    return locked_folder(final.with_name(unfinished_name(final.name, ".earlier")))


def _delete_all(aside: Path, other_files: Path, name: str) -> None:
    for old in aside.iterdir():
        if old.name != LOCK:
            _delete(old, other_files, name)


def _delete(old: Path, other_files: Path, name: str) -> None:
    """Delete opscope's files in ``old``, formerly ``name``; move the others away."""
    if old.is_symlink():
        old.unlink()
        return
    for file in own_files(old):
        (old / file).unlink(missing_ok=True)
    for entry in sorted(old.iterdir()):
        other_files.mkdir(exist_ok=True)
        kept = _free_path(other_files / entry.name)
        entry.rename(kept)
        if (kept.parent.name, kept.name) != (name, entry.name):
            notice(f"{entry.name} is not from opscope, so it was kept as {kept}")
    old.rmdir()


def _free_path(path: Path) -> Path:
    while path.exists() or path.is_symlink():
        path = path.with_name(f"{path.name}.earlier")
    return path
