"""Saving where the process may not have the memory that it takes: in a child, which may fail.

Arrow answers a lack of memory in places with an exception that passes through frames of C, which
nobody can catch: the process is aborted. In a child that is a status, and an error here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opscope import errors
from opscope.child_process import ChildProcess
from opscope.errors import InsufficientMemoryError, OpscopeError
from opscope.memory_limit import memory_for, process_memory_left
from opscope.trace.earlier import remove_begun
from opscope.trace.input_file import shown_path
from opscope.trace.job import place_in_job
from opscope.trace.schema import TABLES

if TYPE_CHECKING:
    from opscope.trace.partition import Partition
from opscope.reused_memory import reusing_memory
from opscope.trace.trace import Trace

_LIBRARIES_BYTES, _ROW_BYTES = 1 << 30, 400
"""More than Arrow's libraries and their pools take, and than a row does on its way to the disk."""


@reusing_memory
def save_trace(trace: Trace, path: str | os.PathLike[str], asked: Partition | None = None) -> Path:
    """As ``store.save_part``, whatever memory there is; with too little, ``path`` stays as it is.

    What is one process of several gets its rollup, too, once it is there. With little memory it has
    none, which is made when it is needed.

    Raises:
        UsageError: as ``store.save``.
        InsufficientMemoryError: it takes more than there is, or than the process may have.
    """
    folder = Path(path)
    with memory_for(f"writing {shown_path(folder)}"):
        if _is_short_of_memory(trace):
            return _save_apart(trace, folder, asked)
        from opscope.trace.store import save_part

        saved = save_part(trace, folder, asked)
    if asked is not None or place_in_job(trace.metadata)[1] > 1:
        # Of one process of several. Imported here, as a method of a trace imports its stage.
        from opscope.rollup.write import roll_up_saved

        roll_up_saved(saved, trace)
    return saved


def _is_short_of_memory(trace: Trace) -> bool:
    """May saving take more memory than this process may still have?"""
    left = process_memory_left()
    if left is None:
        return False
    rows = sum(len(trace.table(name)) for name in TABLES) + len(trace.names)
    return left < _LIBRARIES_BYTES + rows * _ROW_BYTES


def _save_apart(trace: Trace, folder: Path, asked: Partition | None) -> Path:
    try:
        told, ended = _in_child(trace, folder, asked)
    except OSError as error:  # no process can be started
        raise MemoryError(error.strerror) from error
    kind, _, text = told.partition(":")
    if ended or not kind:
        raise InsufficientMemoryError(
            f"The trace was not written to {shown_path(folder)}: the process that was to do it "
            f"{ended or 'failed'}, because the program limits its memory. Raise the limit (ulimit "
            "-v), or save before it is set; the recording is still in memory."
        )
    if kind == "saved":
        return Path(text)
    raise _error_called(kind, text)


def _in_child(trace: Trace, folder: Path, asked: Partition | None) -> tuple[str, str]:
    process = ChildProcess()

    def save_and_tell() -> None:
        try:
            with memory_for(f"writing {shown_path(folder)}"):
                from opscope.trace.store import save_part

                process.tell(f"saved:{save_part(trace, folder, asked)}")
        except OpscopeError as error:
            process.tell(f"{type(error).__name__}:{error}")

    _, ended = process.run(save_and_tell)
    if ended:
        remove_begun(folder)
    return process.told, ended


def _error_called(kind: str, text: str) -> OpscopeError:
    found = getattr(errors, kind, OpscopeError)
    error: OpscopeError = found(text)
    return error
