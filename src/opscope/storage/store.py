"""Writing a trace to disk: a folder of Parquet files per rank. See ``manifest`` for the layout.

An earlier trace there makes room for the new one, and whatever else is in its folder stays.

Arrow answers a lack of memory in places with an exception that passes through frames of C, which
cannot be caught: the process is aborted. So whether there is enough is checked before Arrow is
imported.
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
from opscope.storage.manifest import Manifest, is_opscope_rank, own_files
from opscope.storage.partition import RANK, Partition, partition_folders
from opscope.storage.processes import PROCESSES

_LIBRARIES_BYTES, _POOLS_BYTES, _ROW_BYTES = 1 << 30, 1 << 27, 400
"""More than loading Arrow's libraries takes, than its pools then, and a row on its way to disk."""


@reusing_memory
def save_part(
    trace: TraceData, path: str | os.PathLike[str], part: Partition | None = None
) -> Path:
    """Write ``trace`` as one part of a trace folder; returns that part's folder.

    The part appears whole or not at all. An earlier trace of opscope's in ``path`` is replaced:
    the same rank, ranks beyond this run's world size, and processes; other files in their folders
    are kept. The rank and world size are those of the recording (``distributedInfo`` of its
    metadata; 0 of 1 without); a given ``part`` replaces only that one, so that several
    traces can be put side by side.

    Raises:
        UsageError: ``path`` is a file, holds something else than a trace, or cannot be written.
        InsufficientMemoryError: it takes more than there is, or than the process may have.
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
                Manifest(dict(sizes), rank, dump=_dump_of(trace)).write(unfinished)

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
        folder: of the trace.
        part: the part that the files are; None for the one in the metadata.
        metadata: of the recording.
        write: is given the part's folder, and the rank that its manifest is to have.
    """
    refuse_address(folder)
    rank, world_size = place_in_job(metadata)
    own = Partition(RANK, rank) if part is None else part
    _refuse_foreign(folder)
    final = folder / own.folder_name
    remove_begun(folder)
    with _writing(folder), _hidden_folder(final) as unfinished:
        write(unfinished, own.number if own.kind == RANK else 0)
        _replace_rank(final, unfinished)
        if part is None:
            ranks = {Partition(RANK, number) for number in range(world_size)}
            _delete_others(folder, ranks, final)
    return final


@contextmanager
def all_parts_of(folder: Path) -> Iterator[Path]:
    """A place to save several parts to, which are those of ``folder`` once all are there.

    Until then ``folder`` stays as it is; afterwards it has none of an earlier trace.
    """
    refuse_address(folder)
    _refuse_foreign(folder)
    try:
        with _writing(folder), _hidden_folder(folder / "job") as unfinished:
            yield unfinished
            made = partition_folders(unfinished)
            for part, new in made.items():
                _replace_rank(folder / part.folder_name, new)
            beside = folder / min(part.folder_name for part in made)
            _delete_others(folder, made, beside)
    finally:
        with suppress(OSError):  # something is in it
            folder.rmdir()


def _delete_others(folder: Path, new: Container[Partition], beside: Path) -> None:
    for part, stale in partition_folders(folder).items():
        if part not in new:
            _delete_rank(stale, beside)
    (folder / PROCESSES).unlink(missing_ok=True)


def _dump_of(trace: TraceData) -> dict[str, Any] | None:
    """Why and when a flight recorder made this, from the metadata."""
    dump = trace.metadata.get("dump")
    kept = ("reason", "detail", "time_ns", "asked_s", "held_s", "limited_by")
    return {key: dump.get(key) for key in kept} if isinstance(dump, dict) else None


def _refuse_foreign(folder: Path) -> None:
    """Only a new or empty folder, or an opscope trace, is written to."""
    if folder.suffix in (".json", ".gz"):
        raise UsageError(
            f"save() writes a folder, and {folder.name} is the name of a file. Choose a name "
            "without a suffix, or use export_chrome_trace() for a Chrome JSON."
        )
    try:
        there = status_of(folder)
        if there is not None and not stat.S_ISDIR(there.st_mode):
            raise UsageError(f"{folder} is a file, but a trace is a folder. Choose another path.")
        entries = [] if there is None else list(folder.iterdir())
        parts = set(partition_folders(folder).values())
    except (OSError, TraceFormatError) as error:
        raise _unwritable(folder, error.__cause__ or error) from error
    for entry in entries:
        ours = entry.name == PROCESSES or (entry in parts and is_opscope_rank(entry))
        if not ours and not entry.name.startswith("."):
            raise UsageError(
                f"{folder} is not empty and holds {entry.name}, which does not belong to a "
                "trace, so the trace was not saved. Choose a new folder, or the folder of an "
                "earlier trace."
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
        new = unfinished.rename(aside / "new")  # holds the earlier rank after the exchange
        (new / LOCK).unlink(missing_ok=True)
        replace_folder(final, new, aside)
        _delete_all(aside, final, final.name)


def _delete_rank(stale: Path, beside: Path) -> None:
    """Delete a rank that the new trace has not; other files go to the folder ``beside`` it."""
    with suppress(OSError), _aside(stale) as aside:
        stale.rename(aside / "old")
        _delete_all(aside, beside / f"earlier-{stale.name}", stale.name)


def remove_begun(folder: Path) -> None:
    """Remove what killed processes left that wrote to a folder, or replaced what was there."""
    remove_parts(folder)
    for one in below(folder, LeftKind.REPLACED):
        name = one.name[1:].partition(".")[0]
        with suppress(OSError), claimed(one) as is_there:
            if is_there:
                _delete_all(one.path, one.folder / f"earlier-{name}", name)
                (one.path / LOCK).unlink()
                one.path.rmdir()


def _aside(final: Path) -> AbstractContextManager[Path]:
    """A folder for the earlier trace; foreign files that cannot be moved stay there."""
    return locked_folder(final.with_name(unfinished_name(final.name, ".earlier")))


def _delete_all(aside: Path, other_files: Path, name: str) -> None:
    for old in aside.iterdir():
        if old.name != LOCK:
            _delete(old, other_files, name)


def _delete(old: Path, other_files: Path, name: str) -> None:
    """Delete what opscope wrote into ``old``, once called ``name``; move the rest away."""
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
