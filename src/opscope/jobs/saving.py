"""Saves one process of several, with its rollup."""

from __future__ import annotations

import os
from pathlib import Path

from opscope.columns.trace_data import TraceData
from opscope.storage.job import place_in_job
from opscope.storage.partition import Partition
from opscope.storage.store import save_part


def save_trace(
    trace: TraceData, path: str | os.PathLike[str], part: Partition | None = None
) -> Path:
    """Write a trace like :func:`save_part`; for one process of several, write its rollup too.

    Without a rollup, the first question makes it.
    """
    saved = save_part(trace, path, part)
    if part is not None or place_in_job(trace.metadata)[1] > 1:
        # Imports analyses, for which programs of one process do not wait.
        from opscope.jobs.rollup.write import roll_up_saved

        roll_up_saved(saved, trace)
    return saved
