"""Keyword arguments of the few events that have any: collectives, and what programs annotate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import Role, ScalarType
from opscope.columns.trace_data import TraceData


def keyword_values(trace: TraceData, keywords: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Keyword arguments by event and name, for the few events that have any of ``keywords``."""
    scalars = trace.table("scalars")
    rows = np.flatnonzero(scalars["role"] == Role.KEYWORD)
    if not len(rows):
        return {}
    used: npt.NDArray[Any] = np.unique(scalars["keyword"][rows])
    wanted = [row for row in used.tolist() if trace.names[row] in keywords]
    found: dict[int, dict[str, Any]] = {}
    for row in rows[np.isin(scalars["keyword"][rows], wanted)].tolist():
        name = trace.names[scalars["keyword"][row]]
        text = trace.names[scalars["value"][row]]
        is_number = scalars["type"][row] == ScalarType.INT and text.lstrip("-").isdigit()
        found.setdefault(int(scalars["event"][row]), {})[name] = int(text) if is_number else text
    return found
