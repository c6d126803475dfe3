"""Keyword arguments of a call as ``"key":value`` in a Chrome trace.

torch writes them beside its own keys, and only those it can: integers, floats, booleans, strings
and lists of strings; ``stream`` only as an integer and ``grid`` only as a string, because readers
rely on it. A string with a quote in it becomes "None".
"""

from __future__ import annotations

import math
from typing import Any

from opscope.columns.schema import ScalarType
from opscope.export.json_text import to_json
from opscope.timeline.tree.arguments import list_of_strings

RESERVED = frozenset(
    {
        "External id",
        "Record function id",
        "Sequence number",
        "Fwd thread id",
        "Concrete Inputs",
        "Input type",
        "Input Strides",
        "Input Dims",
        "Ev Idx",
        "finished",
    }
)
"""Keys that mean something to readers; a keyword of the same name is left out."""

_REQUIRED_TYPE = {"stream": ScalarType.INT, "grid": ScalarType.STRING}


def keyword_fragment(keyword: str, kind: int, text: str) -> str | None:
    """``"keyword":value``, or None for what torch leaves out."""
    if keyword in RESERVED or _REQUIRED_TYPE.get(keyword, kind) != kind:
        return None
    value = _value(kind, text)
    return None if value is None else f"{to_json(keyword)}:{to_json(value)}"


def _value(kind: int, text: str) -> Any:
    if kind == ScalarType.STRING:
        return "None" if '"' in text else text
    if kind == ScalarType.BOOL:
        return text == "True"
    try:
        if kind == ScalarType.INT:
            return int(text)
        if kind == ScalarType.FLOAT:
            number = float(text)
            return number if math.isfinite(number) else text
        if kind == ScalarType.OTHER_LIST:
            return list_of_strings(text)
    except ValueError:
        pass  # the text does not fit its type, so torch did not write it
    return None
