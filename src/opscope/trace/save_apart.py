"""Saving a trace with what belongs to it, unless the process may not have the memory that it takes.

Arrow answers a lack of memory in places with an exception that passes through frames of C, which
nobody can catch: the process is aborted. So that is told before.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.memory_limit import memory_for, process_memory_left, require_memory
from opscope.trace.input_file import shown_path
from opscope.trace.job import place_in_job
from opscope.trace.schema import TABLES

if TYPE_CHECKING:
    from opscope.trace.partition import Partition
from opscope.reused_memory import reusing_memory
from opscope.trace.trace import Trace

_LIBRARIES_BYTES, _POOLS_BYTES, _ROW_BYTES = 1 << 30, 1 << 27, 400
"""More than loading Arrow's libraries takes, than its pools then, and a row on its way to disk."""


@reusing_memory
def save_trace(trace: Trace, path: str | os.PathLike[str], asked: Partition | None = None) -> Path:
    """As ``store.save_part``; with too little memory, ``path`` stays as it is.

    What is one process of several gets its rollup, too, once it is there.

    Raises:
        UsageError: as ``store.save``.
        InsufficientMemoryError: it takes more than there is, or than the process may have.
    """
    folder = Path(path)
    with memory_for(f"writing {shown_path(folder)}"):
        if (left := process_memory_left()) is not None:
            require_memory(_bytes_to_save(trace), f"writing {shown_path(folder)}", left)
        from opscope.trace.store import save_part

        saved = save_part(trace, folder, asked)
    if asked is not None or place_in_job(trace.metadata)[1] > 1:
        # Of one process of several. Imported here, as a method of a trace imports its stage.
        from opscope.rollup.write import roll_up_saved

        roll_up_saved(saved, trace)
    return saved


def _bytes_to_save(trace: Trace) -> int:
    rows = sum(len(trace.table(name)) for name in TABLES) + len(trace.names)
    is_loaded = "pyarrow.parquet" in sys.modules
    return (_POOLS_BYTES if is_loaded else _LIBRARIES_BYTES) + rows * _ROW_BYTES
