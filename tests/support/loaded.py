"""Traces from disk as users hold them, read by what reads one process."""

from __future__ import annotations

import os

from opscope.api.trace import Trace
from opscope.recording.streams import load


def load_trace(
    path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
) -> Trace:
    """As ``recording.streams.load.load_trace``."""
    return Trace.of(load.load_trace(path, rank, process))
