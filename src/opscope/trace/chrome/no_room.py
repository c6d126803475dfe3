"""What a recording has and a Chrome file cannot hold: counted at its end, and said on import."""

from __future__ import annotations

from typing import Any

from opscope.trace.schema import TABLES
from opscope.trace.trace import Trace

KEY = "opscope"
"""Of the outermost object of the file; other tools pass over it."""

_LEFT_OUT = "left out"
_TABLES = (
    *("operator_calls", "script_calls", "task_runs", "tasks", "optimizers", "parameters"),
    *("compiled_sites", "compiled_origins", "compilations", "thread_samples", "source_lines"),
)
"""Those of which nothing is in the rows."""


def said_of(trace: Trace) -> dict[str, Any]:
    """The value of :data:`KEY` in a file of ``trace``; empty where nothing is left out."""
    counts = {name: len(trace.table(name)) for name in _TABLES if len(trace.table(name))}
    return {_LEFT_OUT: counts} if counts else {}


def left_out(said: Any) -> dict[str, int]:
    """Rows that a file's recording has and the file has not, by table, as :func:`said_of` says."""
    counts = said.get(_LEFT_OUT) if isinstance(said, dict) else None
    if not isinstance(counts, dict):
        return {}
    return {
        name: count
        for name, count in counts.items()
        if name in TABLES and type(count) is int and 0 < count < 1 << 31
    }
