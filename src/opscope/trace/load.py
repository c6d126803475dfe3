"""One function that reads whatever holds a trace."""

from __future__ import annotations

import os
from pathlib import Path

from opscope.errors import TraceFormatError, UsageError
from opscope.trace.trace import Trace


def load(path: str | os.PathLike[str], rank: int | None = None) -> Trace:
    """Read a trace from disk.

    Args:
        path: a folder written by :meth:`Trace.save` (or by ``opscope run``), one rank's folder in
            it, or a Chrome JSON or execution trace (``.json``, ``.json.gz``) from opscope,
            torch.profiler or another tool.
        rank: which rank of a folder that holds several.

    Raises:
        TraceFormatError: nothing is there, or it is damaged, foreign, or newer than this opscope.
        UsageError: the folder holds several ranks and ``rank`` does not say which.
    """
    path = Path(path)
    if path.is_dir():
        # Arrow takes longer to import than all of opscope: only who reads a folder pays for it.
        from opscope.trace.store import load_folder

        return load_folder(path, rank)
    if not path.exists():
        raise TraceFormatError(
            f"There is no trace at {path}. Check the path; a trace is a folder written by "
            "trace.save() or opscope run, or a Chrome JSON file."
        )
    if rank is not None:
        raise UsageError(f"{path} is a single file, so rank={rank} means nothing. Leave rank out.")
    from opscope.trace.execution_trace import is_execution_trace, load_execution_trace

    if is_execution_trace(path):
        return load_execution_trace(path)
    from opscope.trace.chrome import load_chrome_trace

    return load_chrome_trace(path)
