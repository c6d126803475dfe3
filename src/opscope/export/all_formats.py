"""The list of export formats."""

from __future__ import annotations

import os

from opscope.columns.trace_data import TraceData
from opscope.export import collapsed_stacks, execution_trace, memory_timeline, perfetto, speedscope
from opscope.export.chrome import writer as chrome
from opscope.export.format import Format, find_format

FORMATS: tuple[Format, ...] = (
    chrome.FORMAT,
    perfetto.FORMAT,
    speedscope.FORMAT,
    execution_trace.FORMAT,
    collapsed_stacks.FORMAT,
    memory_timeline.FORMAT,
)


def export_trace(trace: TraceData, format: str, path: str | os.PathLike[str]) -> None:
    """Write ``trace`` in the format of that name; see :meth:`Trace.export`."""
    find_format(format, FORMATS).write(trace, os.fspath(path))
