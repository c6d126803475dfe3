"""Saving a trace with what belongs to it, unless the process may not have the memory that it takes.

Arrow answers a lack of memory in places with an exception that passes through frames of C, which
nobody can catch: the process is aborted. So that is told before.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.input_file import shown_path
from opscope.base.memory_limit import memory_for, process_memory_left, require_memory
from opscope.columns.schema import TABLES

if TYPE_CHECKING:
    from opscope.storage.partition import Partition
from opscope.base.reused_memory import reusing_memory
from opscope.columns.trace_data import TraceData

_LIBRARIES_BYTES, _POOLS_BYTES, _ROW_BYTES = 1 << 30, 1 << 27, 400
"""More than loading Arrow's libraries takes, than its pools then, and a row on its way to disk."""


@reusing_memory
def save_apart(
    trace: TraceData, path: str | os.PathLike[str], asked: Partition | None = None
) -> Path:
    """As ``store.save_part``; with too little memory, ``path`` stays as it is.

    Raises:
        UsageError: as ``store.save``.
        InsufficientMemoryError: it takes more than there is, or than the process may have.
    """
    folder = Path(path)
    with memory_for(f"writing {shown_path(folder)}"):
        if (left := process_memory_left()) is not None:
            require_memory(_bytes_to_save(trace), f"writing {shown_path(folder)}", left)
        from opscope.storage.store import save_part

        return save_part(trace, folder, asked)


def _bytes_to_save(trace: TraceData) -> int:
    rows = sum(len(trace.table(name)) for name in TABLES) + len(trace.names)
    is_loaded = "pyarrow.parquet" in sys.modules
    return (_POOLS_BYTES if is_loaded else _LIBRARIES_BYTES) + rows * _ROW_BYTES
