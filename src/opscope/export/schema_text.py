"""Operator schemas as torch prints them, looked up once per operator."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.overloads import registered_overloads, registered_schema
from opscope.columns.schema import EventKind, RecordScope
from opscope.columns.trace_data import TraceData

_UNKNOWN_SIZE = 1 << 30
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def schemas_of_events(trace: TraceData) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The schema of every operator event: row in the list of texts, -1 without one.

    Texts come from the trace if its file had them, else from torch's registry, if installed.
    """
    events = trace.events
    row = np.full(len(events), -1, dtype=np.int32)
    is_call = (events["kind"] == EventKind.OPERATOR) & (events["scope"] == RecordScope.FUNCTION)
    calls = np.flatnonzero(is_call)
    # Name and overload are rows of names, so one integer holds the pair.
    pairs = (events["name"][calls].astype(np.int64) << 32) | (events["overload"][calls] + 1)
    distinct, schema_of_call = np.unique(pairs, return_inverse=True)
    metadata = trace.metadata
    schemas = metadata.get("operator_schemas")
    options = metadata.get("options")
    exact = isinstance(options, dict) and bool(options.get("overloads"))
    texts = [
        _schema(
            trace.names[pair >> 32],
            trace.names[(pair & 0xFFFFFFFF) - 1],
            schemas if isinstance(schemas, dict) else {},
            exact,
        )
        for pair in distinct.tolist()
    ]
    row[calls] = np.where([bool(text) for text in texts], np.arange(len(texts)), -1)[
        schema_of_call.reshape(-1)
    ]
    return row, texts


@cache
def schema_size(text: str) -> tuple[int, int]:
    """Number of arguments and of results of a schema; a very large number if unknown.

    ``aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)``
    has three and two.
    """
    name, arrow, results = text.rpartition(" -> ")
    arguments = name[name.find("(") + 1 : -1]
    if not arrow or not name.endswith(")") or "..." in text:
        return _UNKNOWN_SIZE, _UNKNOWN_SIZE
    several = results.startswith("(") and results.endswith(")")
    return _item_count(arguments), _item_count(results[1:-1]) if several else 1


def _item_count(text: str) -> int:
    text = _STRING.sub('""', text)
    depth, items = 0, [""]
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return sum(item.strip() not in ("", "*") for item in items)


def _schema(name: str, overload: str, schemas: dict[str, Any], exact: bool) -> str:
    full_name = f"{name}.{overload}" if overload else name
    text = schemas.get(full_name)
    if isinstance(text, str):
        return text
    if "::" not in name:
        return ""
    # Without overload names, the schema is certain only for operators with one overload.
    candidates = (overload,) if overload or exact else _overloads(name)
    return _registered_text(name, candidates[0]) if len(candidates) == 1 else ""


@cache
def _registered_text(name: str, overload: str) -> str:
    return str(registered_schema(name, overload)) if overload in _overloads(name) else ""


def _overloads(name: str) -> tuple[str, ...]:
    """Names of overloads; empty without torch."""
    try:
        return registered_overloads(name)
    except ImportError:
        return ()
