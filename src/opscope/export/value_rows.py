"""Arguments and results of operators, for the execution trace writers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.columns.schema import Role, ScalarType
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.export.native_columns import Columns, list_columns, row_ranges

_TENSORS = (
    "argument", "element", "role", "dtype", "unsized_dtype", "device_type", "device_index",
    "layout", "impl", "storage", "storage_impl", "storage_offset", "tensor_id", "allocation_id",
)  # fmt: skip
_SCALARS = ("argument", "type", "value")
INPUTS = (Role.INPUT, Role.INPUT_PART)
OUTPUTS = (Role.OUTPUT, Role.OUTPUT_PART)


def value_columns(trace: TraceData) -> Columns:
    """``tensors.*`` and ``scalars.*``, and the input and output rows of each event."""
    count = len(trace.events)
    columns: Columns = {}
    for name, flat in (("tensors", _TENSORS), ("scalars", _SCALARS)):
        table = trace.table(name)
        columns |= {f"{name}.{column}": table[column] for column in flat}
        columns |= rows_of_events(f"{name}.inputs", table, INPUTS, count)
        columns |= rows_of_events(f"{name}.outputs", table, OUTPUTS, count)
    for name in ("sizes", "strides"):
        columns |= list_columns(f"tensors.{name}", trace.table("tensors").lists(name))
    if not len(trace.table("allocations")):
        # Frees were not recorded, so objects are identified by address alone, as in torch.
        unknown = np.broadcast_to(np.int64(-1), len(trace.table("tensors")))
        columns |= {"tensors.tensor_id": unknown, "tensors.allocation_id": unknown}
    return columns


def rows_of_events(prefix: str, table: Table, roles: Sequence[Role], count: int) -> Columns:
    """``prefix.rows``, and ``prefix.index`` if the selected rows are not consecutive."""
    event, role = table["event"], table["role"]
    has_role = (role == roles[0]) | (role == roles[-1])
    rows = np.flatnonzero(has_role & (event >= 0) & (event < count))
    owner = event[rows]
    ranges = row_ranges(owner, count)
    if len(rows) and not np.all(owner[1:] >= owner[:-1]):
        rows = rows[np.argsort(owner, kind="stable")]
    elif len(rows) == 0 or rows[-1] - rows[0] + 1 == len(rows):
        first = int(rows[0]) if len(rows) else 0
        return {f"{prefix}.rows": ranges + first}
    return {f"{prefix}.rows": ranges, f"{prefix}.index": rows.astype(np.int32)}


def nested_values(trace: TraceData) -> dict[int, Pieces]:
    """The nested values of a trace, by row in ``names``."""
    scalars = trace.table("scalars")
    kind, value = scalars["type"], scalars["value"]
    candidates = np.unique(value[(kind == ScalarType.OTHER) | (kind == ScalarType.OTHER_LIST)])
    return {row: pieces for row in candidates.tolist() if (pieces := _pieces(trace, row))}


def _pieces(trace: TraceData, row: int) -> Pieces | None:
    text = trace.names[row]
    return nested_pieces(text) if text.startswith("{") else None


GAP = "\0"  # placeholder of a tensor; JSON escapes it in texts
MAX_DEPTH = 64
_NONE = ("", "", "")

Pieces = tuple[list[str], list[str], list[str]]


def nested_pieces(text: str) -> Pieces | None:
    """Values, shapes and types of a nested value, each split at its tensors; None if not nested."""
    try:
        values, shapes, types = _texts(json.loads(text), 0)
    except (ValueError, RecursionError):
        return None
    return values.split(GAP), shapes.split(GAP), types.split(GAP)


def _texts(value: Any, depth: int) -> tuple[str, str, str]:
    kind, content = _open(value, depth)
    if kind == "Tensor":
        return GAP, GAP, GAP
    name = json.dumps(kind, ensure_ascii=False)[1:-1]
    if kind == "ComplexDouble" or content is None:
        return json.dumps(f"<{kind}>"), "[]", name
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False), "[]", name
    items = [_texts(item, depth + 1) for item in content]
    values, shapes, types = (
        (",".join(each) for each in zip(*items, strict=True)) if items else _NONE
    )
    return f"[{values}]", f"[{shapes}]", f"{name}[{types}]"


def _open(value: Any, depth: int) -> tuple[str, Any]:
    if value == "Tensor":
        return "Tensor", None
    if not isinstance(value, dict) or len(value) != 1 or depth > MAX_DEPTH:
        raise ValueError("not a nested value")
    [(kind, content)] = value.items()
    if isinstance(content, dict) or kind == "Tensor":
        raise ValueError("not a nested value")
    return kind, content
