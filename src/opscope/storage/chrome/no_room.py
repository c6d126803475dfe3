"""What a recording has and a Chrome file cannot hold: counted at its end, and said on import."""

from __future__ import annotations

from typing import Any

from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData

KEY = "opscope"
"""Of the outermost object of the file; other tools pass over it."""

_LEFT_OUT, _DROPPED = "left out", "dropped"
_TABLES = (
    *("operator_calls", "script_calls", "task_runs", "tasks", "optimizers", "parameters"),
    *("compiled_sites", "compiled_origins", "compilations", "thread_samples", "source_lines"),
)
"""Those of which nothing is in the rows."""


def said_of(trace: TraceData) -> dict[str, Any]:
    """The value of :data:`KEY` in a file of ``trace``; empty where nothing is left out or lost."""
    counts = {name: len(trace.table(name)) for name in _TABLES if len(trace.table(name))}
    said = {_LEFT_OUT: counts, _DROPPED: int(trace.ledger.lost())}
    return {key: value for key, value in said.items() if value}


def left_out(said: Any) -> dict[str, int]:
    """Rows that a file's recording has and the file has not, by table, as :func:`said_of` says."""
    counts = said.get(_LEFT_OUT) if isinstance(said, dict) else None
    if not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if name in TABLES and _is_count(count)}


def dropped(said: Any) -> int:
    """How much was asked for and not recorded, of what there are rows for, or not."""
    count: Any = said.get(_DROPPED) if isinstance(said, dict) else 0
    return count if _is_count(count) else 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 53
